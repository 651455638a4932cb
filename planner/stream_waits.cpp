#include "stream_waits.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "slot_pieces.h"

namespace stalloc::planner {
namespace {

// Who used which bytes last.
class LastUsers {
 public:
  struct User {
    std::uint32_t request;
    Time since;
  };

  // Calls visit(user) for every user of some of [begin, end), then makes `user` the only one.
  template <typename Visit>
  void Take(Bytes begin, Bytes end, User user, Visit visit) {
    Cut(begin);
    Cut(end);
    const auto first = spans_.lower_bound(begin);
    const auto last = spans_.lower_bound(end);
    for (auto span = first; span != last; ++span) visit(span->second.user);
    spans_.erase(first, last);
    spans_.emplace(begin, Span{end, user});
  }

 private:
  struct Span {
    Bytes end;
    User user;
  };

  // No span lies on both sides of `at` afterwards.
  void Cut(Bytes at) {
    auto after = spans_.lower_bound(at);
    if (after == spans_.begin()) return;
    Span& before = std::prev(after)->second;
    if (before.end <= at) return;
    spans_.emplace_hint(after, at, before);
    before.end = at;
  }

  std::map<Bytes, Span> spans_;  // by where they begin; disjoint
};

Time OnCircle(Time time, Time period) {
  if (period == 0) return time;
  const Time rest = time % period;
  return rest < 0 ? rest + period : rest;
}

}  // namespace

bool HasSeveralStreams(const Problem& problem) {
  const auto other = [&](const Request& request) { return request.stream != problem.requests.front().stream; };
  return std::any_of(problem.requests.begin(), problem.requests.end(), other);
}

std::vector<SlotWait> WaitsOf(const Problem& problem, const std::vector<Slot>& slots) {
  if (!HasSeveralStreams(problem)) return {};
  const std::vector<Request>& requests = problem.requests;
  const auto begin_of = [&](std::uint32_t i) { return OnCircle(requests[i].begin, problem.period); };
  std::vector<std::uint32_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return begin_of(a) < begin_of(b); });

  const auto must_wait = [&](const LastUsers::User& user, std::uint32_t next, Time now) {
    const Request& before = requests[user.request];
    if (before.stream == requests[next].stream) return false;
    if (problem.reusable.empty()) return true;
    const Time free = problem.reusable[std::size_t{user.request} * problem.streams + requests[next].stream];
    return now < user.since + (free - before.begin);
  };

  const auto freed = [&](const LastUsers::User& user) {
    return user.since + (requests[user.request].end - requests[user.request].begin);
  };

  LastUsers users;
  std::vector<SlotWait> waits;
  const int rounds = problem.period > 0 ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    waits.clear();
    for (const std::uint32_t i : order) {
      const Time now = begin_of(i) + round * problem.period;
      std::map<std::uint32_t, LastUsers::User> last;  // by stream: what is freed on it last, of all that is taken
      ForPieces(slots[i], requests[i].size_bytes, [&](Bytes begin, Bytes end) {
        users.Take(begin, end, {i, now}, [&](const LastUsers::User& user) {
          if (!must_wait(user, i, now)) return;
          const auto [at, fresh] = last.try_emplace(requests[user.request].stream, user);
          if (!fresh && freed(user) > freed(at->second)) at->second = user;
        });
      });
      for (const auto& [stream, user] : last) waits.push_back({i, user.request});
    }
  }
  return waits;
}

std::uint64_t CountWaits(const Problem& problem, const std::vector<Slot>& slots) {
  return WaitsOf(problem, slots).size();
}

Problem WithWaitsFrom(const Problem& problem, Bytes from_bytes) {
  Problem changed = problem;
  if (!HasSeveralStreams(problem) || from_bytes == 0) {
    changed.streams = 0;
    changed.reusable.clear();
    return changed;
  }
  Time last = 0;
  for (const Request& request : problem.requests) {
    last = std::max(last, request.end);
    changed.streams = std::max(changed.streams, request.stream + 1);
  }
  if (problem.reusable.empty()) {
    changed.reusable.clear();
    for (const Request& request : problem.requests) {
      const Time never = problem.period > 0 ? request.begin + problem.period : last;
      for (std::uint32_t q = 0; q < changed.streams; ++q) {
        changed.reusable.push_back(q == request.stream ? request.end : never);
      }
    }
  }
  for (std::size_t i = 0; i < changed.requests.size(); ++i) {
    if (changed.requests[i].size_bytes < from_bytes) continue;
    const auto row = changed.reusable.begin() + static_cast<std::ptrdiff_t>(i * changed.streams);
    std::fill(row, row + changed.streams, changed.requests[i].end);
  }
  return changed;
}

}  // namespace stalloc::planner
