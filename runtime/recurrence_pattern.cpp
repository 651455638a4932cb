// From the iteration found to the pattern: which request corresponds to which in the iteration before, and so which
// sizes vary, which blocks persist, and when a block is freed that is not freed yet.
#include <algorithm>
#include <unordered_map>

#include "recurrence_index.h"
#include "recurrence_period.h"

namespace stalloc::runtime::recurrence {

namespace {

constexpr std::size_t kLookAhead = 1024;  // requests inserted or missing in one place
constexpr std::uint32_t kAnchor = 4;      // equal requests in a row that bring the two iterations back in step

bool SameOperation(const Request& a, const Request& b) { return a.call_site == b.call_site && a.stream == b.stream; }

// Whether the two are one sequence with other sizes: the same operations, with the same frees between.
bool SameOrder(std::span<const Request> a, std::span<const Request> b) {
  if (a.size() != b.size()) return false;
  std::size_t differ = 0;
  for (std::size_t i = 0; i + 1 < a.size(); ++i)
    differ += !SameOperation(a[i], b[i]) || a[i + 1].begin - a[i].begin != b[i + 1].begin - b[i].begin;
  return differ <= a.size() / 64;
}

std::vector<std::uint64_t> Anchors(std::span<const Request> requests) {
  std::vector<std::uint64_t> anchors(requests.size(), 0);
  for (std::size_t i = 0; i + kAnchor <= requests.size(); ++i) {
    std::uint64_t hash = 0;
    for (std::uint32_t k = 0; k < kAnchor; ++k) hash = Mix(hash, requests[i + k].token);
    anchors[i] = hash | 1;
  }
  return anchors;
}

// Pairs requests [a, a_end) with [b, b_end), between two places where the iterations are in step.
void AlignGap(std::span<const Request> previous, std::size_t a, std::size_t a_end, std::span<const Request> current,
              std::size_t b, std::size_t b_end, std::vector<std::int32_t>& pairs) {
  if (a_end - a == b_end - b) {
    for (; a < a_end; ++a, ++b)
      if (SameOperation(previous[a], current[b])) pairs[b] = static_cast<std::int32_t>(a);
    return;
  }
  // Different numbers: only the call sites can tell which is which.
  for (; b < b_end; ++b) {
    if (current[b].call_site == 0) continue;
    std::size_t at = a;
    while (at < a_end && !SameOperation(previous[at], current[b])) ++at;
    if (at == a_end) continue;
    pairs[b] = static_cast<std::int32_t>(at);
    a = at + 1;
  }
}

std::uint64_t Fingerprint(const Pattern& pattern) {
  std::uint64_t hash = static_cast<std::uint64_t>(pattern.period);
  for (const PatternRequest& request : pattern.requests) {
    hash = Mix(hash, request.size_varies ? 0 : request.size_bytes);
    hash = Mix(hash, Mix(request.call_site, request.stream));
    hash = Mix(hash, static_cast<std::uint64_t>(request.end - request.begin) * 4 + request.size_varies * 2u +
                         request.persists);
  }
  return hash;
}

}  // namespace

std::vector<std::int32_t> Align(std::span<const Request> previous, std::span<const Request> current) {
  std::vector<std::int32_t> pairs(current.size(), -1);
  if (SameOrder(previous, current)) {
    for (std::size_t i = 0; i < current.size(); ++i) pairs[i] = static_cast<std::int32_t>(i);
    return pairs;
  }
  const PositionIndex index(Anchors(previous));
  const std::vector<std::uint64_t> anchors = Anchors(current);
  std::size_t a = 0, b = 0;
  while (a < previous.size() && b < current.size()) {
    if (previous[a].token == current[b].token) {
      pairs[b++] = static_cast<std::int32_t>(a++);
      continue;
    }
    // The nearest place where both go on alike.
    std::size_t best = kLookAhead, to_a = previous.size(), to_b = current.size();
    for (std::size_t ahead = 0; ahead < best && b + ahead < current.size(); ++ahead) {
      const auto positions = index.Find(anchors[b + ahead]);
      const auto at = std::lower_bound(positions.begin(), positions.end(), a);
      if (at == positions.end() || *at - a + ahead >= best) continue;
      best = *at - a + ahead;
      to_a = *at;
      to_b = b + ahead;
    }
    AlignGap(previous, a, to_a, current, b, to_b, pairs);
    a = to_a;
    b = to_b;
  }
  return pairs;
}

Pattern MakePattern(std::span<const Request> requests, const Iteration& iteration) {
  const auto current = requests.subspan(iteration.begin, iteration.length());
  const std::int64_t start = current.front().begin;
  Pattern pattern;
  pattern.exact = iteration.exact;
  pattern.period = requests[iteration.end].begin - start;
  pattern.first_block = current.front().block;
  pattern.last_block = requests[iteration.end].block;

  // The counterpart of a request is one that is known to have been seen for a whole period.
  std::vector<std::int32_t> pairs;
  const std::size_t n = requests.size(), p = iteration.length();
  if (!iteration.exact)
    pairs = Align(requests.subspan(iteration.previous, iteration.begin - iteration.previous), current);

  std::unordered_map<std::uint64_t, std::uint32_t> occurrences;
  pattern.requests.reserve(current.size());
  for (std::size_t i = 0; i < current.size(); ++i) {
    const Request& request = current[i];
    const std::size_t here = iteration.begin + i;
    const Request* counterpart = nullptr;
    if (iteration.exact)
      counterpart = &requests[here + p < n ? here : here - p];
    else if (pairs[i] >= 0)
      counterpart = &requests[iteration.previous + static_cast<std::size_t>(pairs[i])];

    PatternRequest out;
    out.call_site = request.call_site;
    out.size_bytes = request.size_bytes;
    out.stream = request.stream;
    out.example_block = request.block;
    out.begin = request.begin - start;
    out.size_varies = counterpart == nullptr || counterpart->size_bytes != request.size_bytes;
    std::int64_t lifetime = kOpen;
    if (request.end != kOpen)
      lifetime = request.end - request.begin;
    else if (counterpart != nullptr && counterpart->end != kOpen)
      lifetime = counterpart->end - counterpart->begin;
    out.persists = lifetime > pattern.period;
    out.end = out.begin + std::min(lifetime, pattern.period + 1);
    const std::uint64_t identity =
        out.size_varies ? Mix(request.call_site, ~std::uint64_t{request.stream}) : request.token;
    out.occurrence = occurrences[identity]++;
    pattern.requests.push_back(out);
  }
  pattern.fingerprint = Fingerprint(pattern);
  return pattern;
}

}  // namespace stalloc::runtime::recurrence
