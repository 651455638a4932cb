#include "runtime/learning/plan_content.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stalloc::runtime {

namespace {

using planner::Plan;
using planner::PlannedRequest;

// Blocks that stay count from this size on: half a page.
constexpr planner::Bytes kSmall = planner::kPageBytes / 2;

// The circle is hashed by what follows what, so many requests at a time. A schedule that has the same requests in
// another order (a pipeline's) differs in some stretch of this length.
constexpr std::size_t kStretch = 8;

// The part by which bytes times lifetimes may differ. Two ranks under DDP and two runs with side streams differed by
// less than a thousandth; one that keeps its gradients through the next forward pass differs by far more.
constexpr double kTolerance = 0.05;

struct Identity {
  std::uint64_t call_site;
  std::uint64_t size_bytes;
  std::uint64_t stream;
};

std::uint64_t HashOf(const Identity* identities, std::size_t count, std::uint64_t seed) {
  return XXH3_64bits_withSeed(identities, count * sizeof(Identity), seed);
}

// Bytes live, summed over the iteration's events: the same wherever the circle is cut.
double ByteTime(const Plan& plan) {
  double sum = 0;
  for (const PlannedRequest& request : plan.iteration)
    sum += static_cast<double>(request.size_bytes) *
           static_cast<double>(std::min(request.end - request.begin, plan.period));
  return plan.period > 0 ? sum / static_cast<double>(plan.period) : 0;
}

}  // namespace

std::uint64_t ContentKey(const Plan& plan) {
  std::vector<Identity> kept;
  for (const PlannedRequest& block : plan.persistent)
    if (block.size_bytes >= kSmall) kept.push_back({block.call_site, block.size_bytes, 0});
  std::vector<Identity> circle;
  for (const PlannedRequest& request : plan.iteration)
    circle.push_back({request.call_site, request.size_bytes, request.stream});
  const std::size_t count = circle.size();
  for (std::size_t i = 0; count != 0 && i + 1 < kStretch; ++i) circle.push_back(circle[i]);
  std::uint64_t stretches = 0;  // their sum: in no order, for none is the first
  for (std::size_t i = 0; i < count; ++i) stretches += HashOf(&circle[i], kStretch, 0);
  const std::uint64_t key = HashOf(kept.data(), kept.size(), stretches + count);
  return key != 0 ? key : 1;
}

bool AreAlike(const Plan& a, const Plan& b) {
  if (a.configuration != b.configuration && a.beginning != b.beginning &&
      std::ranges::any_of(a.iteration, &PlannedRequest::scales))
    return false;
  const double of_a = ByteTime(a);
  const double of_b = ByteTime(b);
  return std::abs(of_a - of_b) <= kTolerance * std::max(of_a, of_b);
}

}  // namespace stalloc::runtime
