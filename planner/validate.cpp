#include "planner/validate.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <vector>

namespace stalloc::planner {
namespace {

std::string Request_(std::size_t index) { return "request " + std::to_string(index); }

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

struct Event {
  __int128 time;
  bool is_begin;  // ends come first at equal times: lifetimes are half-open
  std::size_t request;
};

// Plays all begins and ends in order of time and keeps the live blocks by address. A circle is played as three turns of
// a line, so that every pair that meets on the circle meets in the middle turn.
std::optional<std::string> FindOverlap(const Problem& problem, const Placement& placement) {
  std::vector<Event> events;
  for (std::size_t i = 0; i < problem.requests.size(); ++i) {
    const Request& request = problem.requests[i];
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
  std::map<Bytes, std::size_t> live;  // offset -> request
  for (const Event& event : events) {
    const Bytes begin = placement.offsets[event.request];
    const Bytes end = begin + problem.requests[event.request].size_bytes;
    if (!event.is_begin) {
      live.erase(begin);
      continue;
    }
    auto next = live.lower_bound(begin);
    if (next != live.end() && next->first < end) {
      return Request_(event.request) + " overlaps " + Request_(next->second);
    }
    if (next != live.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + problem.requests[previous->second].size_bytes > begin) {
        return Request_(event.request) + " overlaps " + Request_(previous->second);
      }
    }
    live.emplace(begin, event.request);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> FindViolation(const Problem& problem, const Placement& placement) {
  if (placement.offsets.size() != problem.requests.size()) {
    return "placement has " + std::to_string(placement.offsets.size()) + " offsets for " +
           std::to_string(problem.requests.size()) + " requests";
  }
  if (problem.alignment_bytes == 0 || problem.period < 0) return "the problem is malformed";
  Bytes height = 0;
  for (std::size_t i = 0; i < problem.requests.size(); ++i) {
    const Request& request = problem.requests[i];
    const Bytes offset = placement.offsets[i];
    if (request.size_bytes == 0 || request.end <= request.begin) return Request_(i) + " is malformed";
    if (problem.period > 0 && static_cast<__int128>(request.end) - request.begin > problem.period) {
      return Request_(i) + " lives longer than the period";
    }
    if (offset % problem.alignment_bytes != 0) return Request_(i) + " is not aligned";
    if (offset > std::numeric_limits<Bytes>::max() - request.size_bytes) return Request_(i) + " overflows";
    if (offset + request.size_bytes > problem.capacity_bytes) return Request_(i) + " ends above the capacity";
    height = std::max(height, offset + request.size_bytes);
    for (std::size_t k = 0; k < problem.fixed.size(); ++k) {
      const FixedBlock& block = problem.fixed[k];
      const bool share = Meet(offset, static_cast<__int128>(offset) + request.size_bytes, block.offset,
                              static_cast<__int128>(block.offset) + block.size_bytes);
      if (share && LiveTogether(request, block, problem.period)) {
        return Request_(i) + " overlaps fixed block " + std::to_string(k);
      }
    }
  }
  if (height != placement.height_bytes) {
    return "height is said to be " + std::to_string(placement.height_bytes) + " but is " + std::to_string(height);
  }
  return FindOverlap(problem, placement);
}

}  // namespace stalloc::planner
