// Which request of one iteration corresponds to which of the iteration before.
//
// A global alignment by dynamic programming, in a band around the diagonal whose width bounds the cost. Requests of
// equal size and call site belong together most of all, but where sizes change nearly everywhere the way they repeat
// (RepeatDistance) and the blocks' lifetimes tell.
#include <algorithm>
#include <bit>

#include "recurrence/recurrence_index.h"
#include "recurrence/recurrence_period.h"

namespace stalloc::runtime::recurrence {

namespace {

constexpr std::size_t kHalfBand = 128;        // requests more or less that are followed, ...
constexpr std::size_t kMostCells = 8u << 20;  // ... or fewer, so that it takes a few tens of milliseconds at most

constexpr std::int32_t kNever = -(1 << 28);
constexpr std::int32_t kGap = -1;  // score of leaving a request of either side alone

bool SameOperation(const Request& a, const Request& b) { return a.call_site == b.call_site && a.stream == b.stream; }

// Whether the two are one sequence with other sizes: the same operations, with the same frees between.
bool SameOrder(std::span<const Request> a, std::span<const Request> b) {
  if (a.size() != b.size()) return false;
  std::size_t differ = 0;
  for (std::size_t i = 0; i + 1 < a.size(); ++i)
    differ += !SameOperation(a[i], b[i]) || a[i + 1].begin - a[i].begin != b[i + 1].begin - b[i].begin;
  return differ <= a.size() / 64;
}

// What the score of a pair depends on.
struct Trait {
  std::uint32_t token;  // hashes: that two of some thousands are the same by chance does little harm
  std::uint32_t operation;
  std::uint8_t repeat;
  std::uint8_t lifetime_class;
  bool has_site;
};

std::vector<Trait> Traits(std::span<const Request> requests) {
  std::vector<Trait> traits;
  traits.reserve(requests.size());
  RepeatDistance repeat;
  for (const Request& r : requests) {
    const std::uint64_t lifetime = r.end == kOpen ? 0 : static_cast<std::uint64_t>(r.end - r.begin);
    traits.push_back({static_cast<std::uint32_t>(r.token), static_cast<std::uint32_t>(Mix(r.call_site, r.stream)),
                      static_cast<std::uint8_t>(repeat.Next(Mix(r.size_bytes, r.stream))),
                      static_cast<std::uint8_t>(std::bit_width(lifetime)), r.call_site != 0});
  }
  return traits;
}

std::int32_t Score(const Trait& a, const Trait& b) {
  if (a.token == b.token) return 8;
  if (a.operation != b.operation) return kNever;
  std::int32_t score = a.has_site ? 4 : 0;
  if (a.repeat == b.repeat) score += a.repeat != 0 ? 3 : 1;
  if (a.lifetime_class == b.lifetime_class) score += 1;
  return score;
}

}  // namespace

std::vector<std::int32_t> Align(std::span<const Request> previous, std::span<const Request> current) {
  std::vector<std::int32_t> pairs(current.size(), -1);
  if (SameOrder(previous, current)) {
    for (std::size_t i = 0; i < current.size(); ++i) pairs[i] = static_cast<std::int32_t>(i);
    return pairs;
  }
  const std::vector<Trait> a = Traits(previous), b = Traits(current);

  // Row i holds the cells (i, j) with Low(i) <= j < Low(i) + width: the best score of a[..i) against b[..j).
  const std::size_t rows = a.size() + 1;
  const std::size_t difference = a.size() > b.size() ? a.size() - b.size() : b.size() - a.size();
  const std::size_t half = std::min(kHalfBand + difference, std::max<std::size_t>(kMostCells / rows / 2, 16));
  const std::size_t width = 2 * half + 1;
  auto low = [&](std::size_t i) {
    return static_cast<std::ptrdiff_t>(i * b.size() / std::max<std::size_t>(a.size(), 1)) -
           static_cast<std::ptrdiff_t>(half);
  };
  enum Step : std::uint8_t { kPair, kSkipPrevious, kSkipCurrent };
  std::vector<std::uint8_t> steps(rows * width, kPair);
  // Row i, and the row above it, begin at cell low(i), with a border that no alignment passes.
  std::vector<std::int32_t> above(width + 2, kNever), row(width + 2, kNever);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::ptrdiff_t first = low(i), shift = i == 0 ? 0 : first - low(i - 1);
    std::uint8_t* const step = &steps[i * width];
    std::fill(row.begin(), row.end(), kNever);
    const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(0, -first);
    const std::ptrdiff_t end =
        std::min(static_cast<std::ptrdiff_t>(width), static_cast<std::ptrdiff_t>(b.size()) + 1 - first);
    for (std::ptrdiff_t k = begin; k < end; ++k) {
      const std::ptrdiff_t j = first + k;
      std::int32_t best = i == 0 && j == 0 ? 0 : kNever;
      const std::ptrdiff_t up = std::min(k + shift, static_cast<std::ptrdiff_t>(width));  // (i - 1, j) in the row above
      if (i > 0) {
        if (j > 0) {
          const std::int32_t before = above[static_cast<std::size_t>(up)];  // (i - 1, j - 1), for the border
          const std::int32_t pair = before + Score(a[i - 1], b[static_cast<std::size_t>(j - 1)]);
          if (pair > best) best = pair;
        }
        const std::int32_t skip = above[static_cast<std::size_t>(up) + 1] + kGap;
        if (skip > best) best = skip, step[k] = kSkipPrevious;
      }
      const std::int32_t skip = row[static_cast<std::size_t>(k)] + kGap;
      if (skip > best) best = skip, step[k] = kSkipCurrent;
      row[static_cast<std::size_t>(k) + 1] = std::max(best, kNever);
    }
    above.swap(row);
  }

  std::size_t i = a.size();
  std::ptrdiff_t j = static_cast<std::ptrdiff_t>(b.size());
  while (i > 0 && j > 0) {
    const std::uint8_t step = steps[i * width + static_cast<std::size_t>(j - low(i))];
    if (step == kPair) pairs[static_cast<std::size_t>(j - 1)] = static_cast<std::int32_t>(i - 1);
    i -= step != kSkipCurrent;
    j -= step != kSkipPrevious;
  }
  return pairs;
}

}  // namespace stalloc::runtime::recurrence
