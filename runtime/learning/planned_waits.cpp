#include "runtime/learning/planned_waits.h"

#include <algorithm>
#include <map>
#include <optional>

namespace stalloc::runtime {

namespace {

using planner::Bytes;
using planner::Problem;
using planner::Request;
using planner::Time;

class WaitPlanner {
 public:
  WaitPlanner(Problem* problem, const std::vector<FreedIn>& freed, Bytes limit_bytes)
      : problem_(*problem), freed_(freed), limit_(limit_bytes) {
    for (const auto& fixed : problem_.fixed) fixed_bytes_ += fixed.size_bytes;
  }

  std::vector<PlannedWait> Run(std::size_t at_most) {
    std::vector<PlannedWait> waits;
    while (waits.size() < at_most) {
      const std::optional<Peak> peak = Worst();
      if (!peak) break;
      const std::optional<std::size_t> last = WaitFor(*peak);
      if (!last) break;
      Relax(*peak, *last);
      waits.push_back({peak->request, *last});
    }
    return waits;
  }

 private:
  struct Peak {
    std::size_t request;  // that begins then
    Bytes excess_bytes;
  };

  Time Reusable(std::size_t i, std::uint32_t stream) const { return problem_.reusable[i * problem_.streams + stream]; }

  // How long before `at` on the circle request i was freed, last.
  Time Age(std::size_t i, Time at) const {
    const Time age = (at - problem_.requests[i].end) % problem_.period;
    return age < 0 ? age + problem_.period : age;
  }

  // Freed by `at`, but not to be used on `stream` yet.
  bool OutOfReach(std::size_t i, std::uint32_t stream, Time at) const {
    return Age(i, at) < Reusable(i, stream) - problem_.requests[i].end;
  }

  // The request that begins when the most bytes are in use or out of its stream's reach, if that is too many.
  std::optional<Peak> Worst() const {
    const auto period = static_cast<std::size_t>(problem_.period);
    std::optional<Peak> worst;
    std::vector<std::int64_t> change(period);
    for (std::uint32_t q = 0; q < problem_.streams; ++q) {
      std::fill(change.begin(), change.end(), 0);
      std::int64_t held = static_cast<std::int64_t>(fixed_bytes_);
      for (std::size_t i = 0; i < problem_.requests.size(); ++i) {
        const Request& r = problem_.requests[i];
        const auto size = static_cast<std::int64_t>(r.size_bytes);
        const Time until = Reusable(i, q);
        change[static_cast<std::size_t>(r.begin)] += size;
        change[static_cast<std::size_t>(until % problem_.period)] -= size;
        if (until >= problem_.period) held += size;  // over the boundary: held when the circle begins
      }
      std::vector<std::int64_t> at(period);
      for (std::size_t t = 0; t < period; ++t) at[t] = held += change[t];
      for (std::size_t i = 0; i < problem_.requests.size(); ++i) {
        const Request& r = problem_.requests[i];
        if (r.stream != q) continue;
        const std::int64_t excess = at[static_cast<std::size_t>(r.begin)] - static_cast<std::int64_t>(limit_);
        if (excess > 0 && (!worst || static_cast<Bytes>(excess) > worst->excess_bytes))
          worst = Peak{i, static_cast<Bytes>(excess)};
      }
    }
    return worst;
  }

  // The free to wait for. nullopt: nothing that was freed is out of reach there; the peak is one of live bytes.
  std::optional<std::size_t> WaitFor(const Peak& peak) const {
    const Request& waiting = problem_.requests[peak.request];
    std::map<std::uint32_t, std::vector<std::size_t>> by_stream;
    for (std::size_t i = 0; i < problem_.requests.size(); ++i)
      if (OutOfReach(i, waiting.stream, waiting.begin)) by_stream[freed_[i].stream].push_back(i);
    std::optional<std::size_t> best;
    bool best_is_enough = false;
    Bytes best_bytes = 0;
    for (auto& [stream, requests] : by_stream) {
      std::sort(requests.begin(), requests.end(),
                [&](std::size_t a, std::size_t b) { return Age(a, waiting.begin) > Age(b, waiting.begin); });
      Bytes bytes = 0;
      std::size_t last = requests.back();
      for (const std::size_t i : requests) {
        bytes += problem_.requests[i].size_bytes;
        last = i;
        if (bytes >= peak.excess_bytes) break;
      }
      const bool enough = bytes >= peak.excess_bytes;
      const bool better = !best || (enough != best_is_enough ? enough
                                    : enough                 ? Age(last, waiting.begin) > Age(*best, waiting.begin)
                                                             : bytes > best_bytes);
      if (!better) continue;
      best = last;
      best_is_enough = enough;
      best_bytes = bytes;
    }
    return best;
  }

  // Everything that was freed on that stream up to there is within reach from now on.
  void Relax(const Peak& peak, std::size_t last) {
    const Request& waiting = problem_.requests[peak.request];
    const Time age = Age(last, waiting.begin);
    for (std::size_t i = 0; i < problem_.requests.size(); ++i) {
      if (freed_[i].stream != freed_[last].stream || Age(i, waiting.begin) < age) continue;
      if (!OutOfReach(i, waiting.stream, waiting.begin)) continue;
      problem_.reusable[i * problem_.streams + waiting.stream] = problem_.requests[i].end + Age(i, waiting.begin);
    }
  }

  Problem& problem_;
  const std::vector<FreedIn>& freed_;
  const Bytes limit_;
  Bytes fixed_bytes_ = 0;
};

}  // namespace

std::vector<PlannedWait> PlanWaits(Problem* problem, const std::vector<FreedIn>& freed, Bytes limit_bytes,
                                   std::size_t at_most) {
  if (problem->reusable.empty() || problem->period == 0) return {};
  return WaitPlanner(problem, freed, limit_bytes).Run(at_most);
}

}  // namespace stalloc::runtime
