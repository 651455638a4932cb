// Periods of requests that repeat exactly, and which of them is the training iteration.
//
// A training step is full of repetition: layers, micro-batches, the optimizer's loop over parameters. What sets the
// iteration apart is that its blocks' lifetimes close: at its end nothing is left that was not there at its beginning.
#include <algorithm>
#include <cstdlib>

#include "recurrence/recurrence_period.h"

namespace stalloc::runtime::recurrence {

namespace {

constexpr std::size_t kLeastRequests = 16;     // shorter ones are loops inside something, ...
constexpr std::size_t kLeastRepeatsShort = 8;  // ... unless they go on and on
constexpr std::size_t kShortRequests = 32;
constexpr std::size_t kEndless = 2048;         // requests of a loop, however short, that is all there is by now, ...
constexpr std::size_t kEndlessRequests = 32;   // ... in whose place so many requests make an iteration
constexpr std::int64_t kOpenShare = 512;       // 1 / share of the live bytes' rise may stay open (a kept loss value)
constexpr std::size_t kRepeatsOverOpen = 160;  // more than any model has layers: so often, a leak is just a leak
constexpr std::size_t kRepeatsWithTurns = 3;   // iterations, before blocks may take turns with their successors, ...
constexpr std::size_t kTurnsShare = 20;        // ... 1 / share of the requests at most
constexpr std::size_t kHeldShare = 64;         // 1 / share of the requests may be held from before

// Z function of the reversed tokens: z[p] is the length of the longest common suffix of tokens and tokens[..n - p).
std::vector<std::uint32_t> CommonSuffixes(std::span<const std::uint64_t> tokens) {
  const std::size_t n = tokens.size();
  std::vector<std::uint32_t> z(n, 0);
  auto at = [&](std::size_t i) { return tokens[n - 1 - i]; };
  std::size_t left = 0, right = 0;
  for (std::size_t i = 1; i < n; ++i) {
    std::size_t length = i < right ? std::min<std::size_t>(right - i, z[i - left]) : 0;
    while (i + length < n && at(length) == at(i + length)) ++length;
    z[i] = static_cast<std::uint32_t>(length);
    if (i + length > right) left = i, right = i + length;
  }
  return z;
}

// Whether request `i` lives on until its successor, `length` requests later, is there, and not much longer, as the one
// before it did: what a program keeps in a variable until it has the next, say a batch or the model's output.
bool TakesTurns(std::span<const Request> requests, std::size_t i, std::size_t length) {
  const Request& request = requests[i];
  const Request& before = requests[i - length];
  if (before.end == kOpen) return false;
  const std::int64_t lifetime = before.end - before.begin;
  const std::int64_t period = requests[i + length].begin - request.begin;
  const std::int64_t age = (request.end != kOpen ? request.end : requests.back().begin) - request.begin;
  return lifetime < 2 * period && (request.end != kOpen ? age == lifetime : age <= lifetime);
}

// Whether requests [from, from + length) were all freed within `length` requests, and nothing else was, but for a
// trifle, and for a few that take turns with their successors.
bool Closes(std::span<const Request> requests, std::size_t from, std::size_t length, std::size_t repeats) {
  if (repeats >= kRepeatsOverOpen) return true;
  std::size_t turns_left = repeats >= kRepeatsWithTurns ? length / kTurnsShare : 0;
  std::int64_t open_bytes = 0, lowest = requests[from].live_bytes, highest = lowest;
  for (std::size_t i = from; i < from + length; ++i) {
    lowest = std::min(lowest, requests[i].live_bytes);
    highest = std::max(highest, requests[i].live_bytes + static_cast<std::int64_t>(requests[i].size_bytes));
    // The last request of the window may have followed at once: what is freed after it is not known.
    if (requests[i].end <= requests[i + length].begin) continue;
    if (turns_left != 0 && TakesTurns(requests, i, length)) {
      --turns_left;
    } else {
      open_bytes += static_cast<std::int64_t>(requests[i].size_bytes);
    }
  }
  const std::int64_t change = std::abs(requests[from + length].live_bytes - requests[from].live_bytes);
  return std::max(open_bytes, change) * kOpenShare <= highest - lowest;
}

// Whether something larger is under way: blocks of earlier repeats that outlive a repeat, although in the later ones
// the same requests are freed. So it is while gradients are accumulated: the first micro-batch makes them.
bool HeldFromBefore(std::span<const Request> requests, const Period& period) {
  const std::size_t n = requests.size(), p = period.length;
  if (period.run / p >= kRepeatsOverOpen) return false;
  std::size_t held = 0;
  for (std::size_t i = n - period.run; i + 2 * p < n; ++i) {
    if (requests[i].end <= requests[i + p].begin) continue;
    const std::size_t later = i + (n - p - 1 - i) / p * p;  // in [n - 2 p, n - p)
    if (requests[later].end <= requests[later + p].begin) ++held;
  }
  return held > p / kHeldShare + 4;
}

// Where the largest rotation of `lengths` begins (after K. S. Booth, Lexicographically least circular substrings, 1980,
// in its form with two candidates).
std::size_t LargestRotation(std::span<const std::size_t> lengths) {
  const std::size_t m = lengths.size();
  std::size_t i = 0, j = 1, same = 0;
  while (i < m && j < m && same < m) {
    const std::size_t a = lengths[(i + same) % m], b = lengths[(j + same) % m];
    if (a == b) {
      ++same;
      continue;
    }
    (a < b ? i : j) += same + 1;
    if (i == j) ++j;
    same = 0;
  }
  return std::min(i, j);
}

// The boundary: among the last p possible ones that where the fewest bytes are live. Of several such, the one that the
// longest stretch above this level follows, then the longest second one, and so on: so it does not depend on when the
// search is made, and a step begins with its first micro-batch rather than within the optimizer.
std::size_t LowestBoundary(std::span<const Request> requests, std::size_t p) {
  const std::size_t first = requests.size() - 2 * p;
  std::int64_t lowest = requests[first].live_bytes;
  for (std::size_t i = first; i < first + p; ++i) lowest = std::min(lowest, requests[i].live_bytes);
  std::vector<std::size_t> positions, stretches;
  for (std::size_t i = first; i < first + p; ++i)
    if (requests[i].live_bytes == lowest) positions.push_back(i);
  for (std::size_t k = 0; k < positions.size(); ++k)
    stretches.push_back(k + 1 < positions.size() ? positions[k + 1] - positions[k] : positions[0] + p - positions[k]);
  return positions[LargestRotation(stretches)];
}

}  // namespace

std::vector<Period> PrimitivePeriods(std::span<const std::uint64_t> tokens) {
  std::vector<Period> periods;
  const std::vector<std::uint32_t> z = CommonSuffixes(tokens);
  for (std::size_t p = 1; 2 * p <= tokens.size(); ++p) {
    if (z[p] < p) continue;
    // Both periods hold over the last 2 p tokens: then p is a multiple.
    const bool multiple = std::any_of(periods.begin(), periods.end(), [&](const Period& q) { return q.run >= 2 * p; });
    if (!multiple) periods.push_back({p, p + z[p]});
  }
  return periods;
}

std::vector<Iteration> ExactIterations(std::span<const Request> requests) {
  std::vector<std::uint64_t> tokens;
  tokens.reserve(requests.size());
  for (const Request& request : requests) tokens.push_back(request.token);

  std::vector<Iteration> iterations;
  for (const Period& period : PrimitivePeriods(tokens)) {
    std::size_t p = period.length;
    if (p < kLeastRequests && period.run >= kEndless) p *= kEndlessRequests / p;
    const std::size_t n = requests.size(), repeats = period.run / p;
    if (p < kLeastRequests || (p < kShortRequests && repeats < kLeastRepeatsShort)) continue;
    if (!Closes(requests, n - 2 * p, p, repeats) || HeldFromBefore(requests, {p, period.run})) continue;
    Iteration iteration;
    iteration.begin = LowestBoundary(requests, p);
    iteration.end = iteration.begin + p;
    iteration.previous = iteration.begin;
    iteration.run = period.run;
    iteration.exact = true;
    iterations.push_back(iteration);
  }
  std::reverse(iterations.begin(), iterations.end());
  return iterations;
}

}  // namespace stalloc::runtime::recurrence
