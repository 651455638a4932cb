#include "planner/validate.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>
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

// From when on some bytes may be used again.
struct Use {
  Bytes end;
  __int128 until;
  std::size_t request;
};

using Uses = std::map<Bytes, Use>;  // by first byte; disjoint

void SplitAt(Uses* uses, Bytes at) {
  auto next = uses->lower_bound(at);
  if (next == uses->begin()) return;
  Use& before = std::prev(next)->second;
  if (before.end <= at) return;
  uses->emplace_hint(next, at, before);
  before.end = at;
}

// Bytes [begin, end) are in use until `until` at least.
void Raise(Uses* uses, Bytes begin, Bytes end, __int128 until, std::size_t request) {
  SplitAt(uses, begin);
  SplitAt(uses, end);
  Bytes from = begin;  // where bytes that are not yet noted begin
  auto at = uses->lower_bound(begin);
  while (at != uses->end() && at->first < end) {
    if (at->second.until <= until) {
      at = uses->erase(at);
      continue;
    }
    if (from < at->first) uses->emplace_hint(at, from, Use{at->first, until, request});
    from = at->second.end;
    ++at;
  }
  if (from < end) uses->emplace_hint(at, from, Use{end, until, request});
}

// Plays all begins in order of time and keeps, for each stream that may ask, from when on it may use which bytes. Of
// two pieces that meet, one begins while the other is in use, or both at once. A circle is played twice: what begins in
// the second turn finds all that began in the turn before it.
std::optional<std::string> FindOverlap(const Problem& problem, const std::vector<Piece>& pieces) {
  const std::size_t streams = problem.reusable.empty() ? 1 : problem.streams;
  std::vector<std::pair<__int128, std::size_t>> begins;  // time, piece
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Request& request = problem.requests[pieces[i].request];
    if (problem.period == 0) {
      begins.emplace_back(request.begin, i);
      continue;
    }
    __int128 begin = request.begin % problem.period;
    if (begin < 0) begin += problem.period;
    begins.emplace_back(begin, i);
    begins.emplace_back(begin + problem.period, i);
  }
  std::sort(begins.begin(), begins.end());
  std::vector<Uses> uses(streams);
  for (const auto& [now, p] : begins) {
    const Piece& piece = pieces[p];
    const Request& request = problem.requests[piece.request];
    const Uses& mine = uses[streams == 1 ? 0 : request.stream];
    auto at = mine.upper_bound(piece.begin);
    if (at != mine.begin()) --at;
    for (; at != mine.end() && at->first < piece.end; ++at) {
      if (at->second.end > piece.begin && at->second.until > now) {
        return Name(piece.request) + " overlaps " + Name(at->second.request);
      }
    }
    for (std::size_t q = 0; q < streams; ++q) {
      const Time reusable = problem.reusable.empty() ? request.end : problem.reusable[piece.request * streams + q];
      const __int128 until = now + (static_cast<__int128>(reusable) - request.begin);
      Raise(&uses[q], piece.begin, piece.end, until, piece.request);
    }
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
  const std::size_t streams = problem.streams;
  const bool ordered = !problem.reusable.empty();
  if (ordered && problem.reusable.size() != problem.requests.size() * streams) return "the problem is malformed";
  for (std::size_t i = 0; i < problem.requests.size(); ++i) {
    const Request& request = problem.requests[i];
    if (request.size_bytes == 0 || request.end <= request.begin) return Name(i) + " is malformed";
    if (problem.period > 0 && static_cast<__int128>(request.end) - request.begin > problem.period) {
      return Name(i) + " lives longer than the period";
    }
    if (!ordered) continue;
    if (request.stream >= streams) return Name(i) + " is malformed";
    for (std::size_t q = 0; q < streams; ++q) {
      const __int128 reusable = problem.reusable[i * streams + q];
      const bool too_late = problem.period > 0 && reusable - request.begin > problem.period;
      if (reusable < request.end || too_late) return Name(i) + " is malformed";
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
      Bytes in_page = slots[i].offset_bytes;
      if (in_page >= kPageBytes) return Name(i) + " begins behind its first page";
      if (in_page % problem.alignment_bytes != 0) return Name(i) + " is not aligned";
      for (const std::uint32_t page : slots[i].pages) {
        const Bytes begin = page * kPageBytes + in_page;
        const Bytes here = std::min(left, kPageBytes - in_page);
        in_page = 0;
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
