// Iterations whose requests come in the same order while their sizes scale: with the length to which a batch is padded,
// with the number of images in the last batch.
//
// They are planned once, for the largest size of each request: slots of an upper bound, of which a smaller iteration
// uses the beginnings. That is right where one iteration has all the largest sizes, for its peak is what must be held
// anyway. Where the largest sizes come from several iterations (there are two lengths), a plan for all of them together
// may need more than any iteration does; such a plan is refused, but for a little.
//
// The other way, offsets that are computed from the sizes when an iteration begins, would let every iteration lie at
// the bottom of memory, but that buys nothing: what the largest iteration needs is held.
#include <algorithm>
#include <map>

#include "recurrence/recurrence_period.h"

namespace stalloc::runtime::recurrence {

namespace {

constexpr std::size_t kMostRequests = 1u << 15;  // of the iterations that are compared: each costs an alignment
// This share of the largest iteration's requests must be found in each of the others; more where there is but one
// other, for two may be alike by chance where requests come and go (experts).
constexpr double kAlike = 0.95;
constexpr double kAlikeOfTwo = 0.985;
// Of the bytes by which the others differ from the largest iteration, this share may be more and not less. Sizes that
// scale are all smaller (0 to 2 % were more in training on lengths, images and graphs); where experts share out their
// tokens, what some get the others lack (15 to 58 %).
constexpr double kMostLarger = 0.1;
// So much of the requests, and of the bytes, may vary in a plan of the rest: blocks that come as they may lie in the
// others' slots, each of which then lies in another's. With 3 % of the bytes a mixture of experts found 16 to 40 % of
// the slots taken.
constexpr std::size_t kVaryingShare = 20;
constexpr std::uint64_t kVaryingBytesShare = 100;

struct Span {
  std::size_t begin = 0, end = 0;
  std::size_t length() const noexcept { return end - begin; }
};

// The most that is live at once; `change` says by time how much more or less.
std::int64_t PeakOf(const std::map<std::int64_t, std::int64_t>& change) {
  std::int64_t live = 0, peak = 0;
  for (const auto& [at, bytes] : change) peak = std::max(peak, live += bytes);
  return peak;
}

// ... of an iteration's own blocks, but for those that it leaves behind.
std::int64_t PeakOfSpan(std::span<const Request> requests, Span span) {
  const std::int64_t begin = requests[span.begin].begin, end = requests[span.end].begin;
  std::map<std::int64_t, std::int64_t> change;
  for (std::size_t i = span.begin; i < span.end; ++i) {
    if (requests[i].end - end > end - begin) continue;
    change[requests[i].begin] += static_cast<std::int64_t>(requests[i].size_bytes);
    change[requests[i].end] -= static_cast<std::int64_t>(requests[i].size_bytes);
  }
  return PeakOf(change);
}

// ... of what the pattern plans, if each request has its `size`.
template <typename Size>
std::int64_t PlannedPeak(const Pattern& pattern, Size size) {
  std::map<std::int64_t, std::int64_t> change;
  for (std::size_t i = 0; i < pattern.requests.size(); ++i) {
    const PatternRequest& r = pattern.requests[i];
    if (r.persists) continue;
    const auto bytes = static_cast<std::int64_t>(size(i));
    change[r.begin] += bytes;
    change[std::min(r.end, pattern.period)] -= bytes;
    if (r.end > pattern.period) {  // freed in the next iteration
      change[0] += bytes;
      change[r.end - pattern.period] -= bytes;
    }
  }
  return PeakOf(change);
}

}  // namespace

bool VariesWidely(const Pattern& pattern) {
  std::size_t varying = 0;
  std::uint64_t varying_bytes = 0;
  std::uint64_t bytes = 0;
  for (const PatternRequest& request : pattern.requests) {
    bytes += request.size_bytes;
    if (!request.size_varies || request.scales) continue;
    ++varying;
    varying_bytes += request.size_bytes;
  }
  return varying > pattern.requests.size() / kVaryingShare || varying_bytes > bytes / kVaryingBytesShare;
}

std::optional<Pattern> ScaledPattern(std::span<const Request> requests, const Iteration& iteration) {
  std::vector<Span> spans;
  const std::vector<std::size_t>& starts = iteration.starts;
  for (std::size_t k = starts.size(); k-- > 0;) {
    spans.insert(spans.begin(), {starts[k], k + 1 < starts.size() ? starts[k + 1] : iteration.end});
    if (iteration.end - starts[k] > kMostRequests && spans.size() > 1) break;
  }
  if (spans.size() < 2) return std::nullopt;
  const double alike_enough = spans.size() > 2 ? kAlike : kAlikeOfTwo;

  // The largest, of equals the last: where it was served is known best.
  std::size_t largest = 0;
  std::int64_t largest_peak = 0;
  for (std::size_t k = 0; k < spans.size(); ++k) {
    const std::int64_t peak = PeakOfSpan(requests, spans[k]);
    if (peak < largest_peak) continue;
    largest = k;
    largest_peak = peak;
  }
  const Span base = spans[largest], last = spans.back();
  const auto current = requests.subspan(base.begin, base.length());

  std::vector<std::uint64_t> most(base.length());
  std::vector<bool> varies(base.length(), false);
  for (std::size_t i = 0; i < most.size(); ++i) most[i] = current[i].size_bytes;
  Iteration example;
  std::uint64_t larger_bytes = 0, smaller_bytes = 0;  // in the other iterations than in the largest
  for (std::size_t k = 0; k < spans.size(); ++k) {
    if (k == largest) continue;
    const auto other = requests.subspan(spans[k].begin, spans[k].length());
    std::vector<std::int32_t> pairs = Align(other, current);
    std::size_t alike = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i] < 0) continue;
      const Request& counterpart = other[static_cast<std::size_t>(pairs[i])];
      ++alike;
      if (counterpart.size_bytes > current[i].size_bytes) {
        larger_bytes += counterpart.size_bytes - current[i].size_bytes;
      } else {
        smaller_bytes += current[i].size_bytes - counterpart.size_bytes;
      }
      most[i] = std::max(most[i], counterpart.size_bytes);
      varies[i] = varies[i] || counterpart.size_bytes != current[i].size_bytes;
    }
    if (static_cast<double>(alike) < alike_enough * static_cast<double>(base.length())) return std::nullopt;
    example.previous = spans[k].begin;
    example.pairs = std::move(pairs);
  }
  if (static_cast<double>(larger_bytes) > kMostLarger * static_cast<double>(larger_bytes + smaller_bytes))
    return std::nullopt;
  example.begin = base.begin;
  example.end = base.end;
  Pattern pattern = MakePattern(requests, example, {});
  // It goes on from the last iteration, not from the largest; so does what that leaves behind. Where the two differ in
  // number, a block's number does not say which request it is: all that lives behind the last iteration is kept then.
  pattern.first_block = requests[last.length() == base.length() ? last.begin : last.end].block;
  pattern.last_block = requests[last.end].block;
  for (std::size_t i = 0; i < pattern.requests.size(); ++i) {
    PatternRequest& r = pattern.requests[i];
    r.size_varies = r.size_varies || varies[i];
    r.scales = r.size_varies;
    r.size_bytes = most[i];
  }
  const std::int64_t planned = PlannedPeak(pattern, [&](std::size_t i) { return most[i]; });
  const std::int64_t needed = PlannedPeak(pattern, [&](std::size_t i) { return current[i].size_bytes; });
  if (static_cast<double>(planned) > static_cast<double>(needed) * (1 + kMostOverPeak)) return std::nullopt;
  return pattern;
}

}  // namespace stalloc::runtime::recurrence
