#include "planner/validate.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <vector>

namespace stalloc::planner {
namespace {

std::string Name(std::size_t index) { return "request " + std::to_string(index); }

bool Meet(__int128 begin_a, __int128 end_a, __int128 begin_b, __int128 end_b) {
  return begin_a < end_b && begin_b < end_a;
}

// Whether a lives at some moment of b's life. On a circle the copies one turn before and after are looked at too: with
// lifetimes of at most one period that start at most a few turns apart, the distance is first brought below one turn.
bool LiveTogether(const Request& a, const FixedBlock& b, Time period) {
  __int128 begin = b.begin;
  __int128 end = b.end;
  if (period == 0) return Meet(a.begin, a.end, begin, end);
  if (end - begin >= period) return true;
  const __int128 turns = (a.begin - begin) / period;
  for (int k = -2; k <= 2; ++k) {
    const __int128 shift = (turns + k) * period;
    if (Meet(a.begin, a.end, begin + shift, end + shift)) return true;
  }
  return false;
}

// Some bytes of a request: all of them, or those in one page.
struct Piece {
  std::size_t request;
  Bytes begin;
  Bytes end;
};

struct Event {
  __int128 time;
  bool is_begin;  // ends come first at equal times: lifetimes are half-open
  std::size_t piece;
};

// Plays all begins and ends in order of time and keeps the live pieces by address. A circle is played as three turns of
// a line, so that every pair that meets on the circle meets in the middle turn.
std::optional<std::string> FindOverlap(const Problem& problem, const std::vector<Piece>& pieces) {
  std::vector<Event> events;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Request& request = problem.requests[pieces[i].request];
    if (problem.period == 0) {
      events.push_back({request.begin, true, i});
      events.push_back({request.end, false, i});
      continue;
    }
    __int128 begin = request.begin % problem.period;
    if (begin < 0) begin += problem.period;
    const __int128 length = static_cast<__int128>(request.end) - request.begin;
    for (int turn = 0; turn < 3; ++turn) {
      const __int128 start = begin + static_cast<__int128>(turn) * problem.period;
      events.push_back({start, true, i});
      events.push_back({start + length, false, i});
    }
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    if (a.time != b.time) return a.time < b.time;
    return a.is_begin < b.is_begin;
  });
  std::map<Bytes, std::size_t> live;  // begin -> piece
  for (const Event& event : events) {
    const Piece& piece = pieces[event.piece];
    if (!event.is_begin) {
      live.erase(piece.begin);
      continue;
    }
    auto next = live.lower_bound(piece.begin);
    if (next != live.end() && next->first < piece.end) {
      return Name(piece.request) + " overlaps " + Name(pieces[next->second].request);
    }
    if (next != live.begin() && pieces[std::prev(next)->second].end > piece.begin) {
      return Name(piece.request) + " overlaps " + Name(pieces[std::prev(next)->second].request);
    }
    live.emplace(piece.begin, event.piece);
  }
  return std::nullopt;
}

std::optional<std::string> FindOverlapWithFixed(const Problem& problem, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    for (std::size_t k = 0; k < problem.fixed.size(); ++k) {
      const FixedBlock& block = problem.fixed[k];
      const bool share =
          Meet(piece.begin, piece.end, block.offset, static_cast<__int128>(block.offset) + block.size_bytes);
      if (share && LiveTogether(problem.requests[piece.request], block, problem.period)) {
        return Name(piece.request) + " overlaps fixed block " + std::to_string(k);
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> FindMalformedRequest(const Problem& problem) {
  if (problem.alignment_bytes == 0 || problem.period < 0) return "the problem is malformed";
  for (std::size_t i = 0; i < problem.requests.size(); ++i) {
    const Request& request = problem.requests[i];
    if (request.size_bytes == 0 || request.end <= request.begin) return Name(i) + " is malformed";
    if (problem.period > 0 && static_cast<__int128>(request.end) - request.begin > problem.period) {
      return Name(i) + " lives longer than the period";
    }
  }
  return std::nullopt;
}

// Checks one run of bytes on its own and notes it.
std::optional<std::string> AddRun(const Problem& problem, std::size_t i, Bytes offset, std::vector<Piece>* pieces) {
  const Bytes size = problem.requests[i].size_bytes;
  if (offset % problem.alignment_bytes != 0) return Name(i) + " is not aligned";
  if (offset > std::numeric_limits<Bytes>::max() - size) return Name(i) + " overflows";
  if (offset + size > problem.capacity_bytes) return Name(i) + " ends above the capacity";
  pieces->push_back({i, offset, offset + size});
  return std::nullopt;
}

}  // namespace

std::optional<std::string> FindViolation(const Problem& problem, const Placement& placement) {
  if (placement.offsets.size() != problem.requests.size()) {
    return "placement has " + std::to_string(placement.offsets.size()) + " offsets for " +
           std::to_string(problem.requests.size()) + " requests";
  }
  if (auto reason = FindMalformedRequest(problem)) return reason;
  std::vector<Piece> pieces;
  Bytes height = 0;
  for (std::size_t i = 0; i < problem.requests.size(); ++i) {
    if (auto reason = AddRun(problem, i, placement.offsets[i], &pieces)) return reason;
    height = std::max(height, pieces.back().end);
  }
  if (height != placement.height_bytes) {
    return "height is said to be " + std::to_string(placement.height_bytes) + " but is " + std::to_string(height);
  }
  if (auto reason = FindOverlapWithFixed(problem, pieces)) return reason;
  return FindOverlap(problem, pieces);
}

std::optional<std::string> FindSlotViolation(const Problem& problem, const std::vector<Slot>& slots) {
  if (slots.size() != problem.requests.size()) {
    return std::to_string(slots.size()) + " slots for " + std::to_string(problem.requests.size()) + " requests";
  }
  if (auto reason = FindMalformedRequest(problem)) return reason;
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].kind == Slot::Kind::kRun) {
      if (auto reason = AddRun(problem, i, slots[i].offset_bytes, &pieces)) return reason;
    } else if (slots[i].kind == Slot::Kind::kPaged) {
      Bytes left = problem.requests[i].size_bytes;
      for (const std::uint32_t page : slots[i].pages) {
        const Bytes begin = page * kPageBytes;
        const Bytes here = std::min(left, kPageBytes);
        if (here == 0) return Name(i) + " has more pages than its size needs";
        if (begin + here > problem.capacity_bytes) return Name(i) + " ends above the capacity";
        pieces.push_back({i, begin, begin + here});
        left -= here;
      }
      if (left > 0) return Name(i) + " has fewer pages than its size needs";
    } else if (slots[i].kind != Slot::Kind::kNone) {
      return Name(i) + " has a slot of an unknown kind";
    }
  }
  if (auto reason = FindOverlapWithFixed(problem, pieces)) return reason;
  return FindOverlap(problem, pieces);
}

}  // namespace stalloc::planner
