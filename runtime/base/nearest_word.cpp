#include "runtime/base/nearest_word.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace stalloc::runtime {
namespace {

// Number of insertions, deletions and changes of one character that turn `a` into `b`.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string_view> NearestWord(std::string_view written, std::span<const std::string_view> known) {
  std::optional<std::string_view> nearest;
  std::size_t fewest = std::min<std::size_t>(3, written.size() / 2) + 1;
  for (const std::string_view word : known) {
    const std::size_t distance = EditDistance(written, word);
    if (distance >= fewest) continue;
    fewest = distance;
    nearest = word;
  }
  return nearest;
}

}  // namespace stalloc::runtime
