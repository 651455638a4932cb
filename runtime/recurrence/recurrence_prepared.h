// Matcher::Prepared: a pattern as the serving path needs it, with the indices by which a lost place is found again.
//
// Built off the serving path; from then on only `used_in` changes, under the device's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "recurrence/recurrence_index.h"
#include "runtime/recurrence/recurrence.h"

namespace stalloc::runtime {

class Matcher::Prepared {
 public:
  explicit Prepared(const Pattern& pattern);

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(entries.size()); }

  struct Entry {
    std::uint64_t key = 0;  // Matcher::Key(size, stream)
    std::uint64_t call_site = 0;
    // The request's name, regardless of its place: of its size if that is fixed, otherwise of its call site, otherwise
    // of how its size repeats. 0: it has none, only its place in the order tells it.
    std::uint64_t token = 0;
    std::uint64_t size_bytes = 0;
    std::uint32_t stream = 0;
    std::uint32_t repeat_distance = 0;
    std::int32_t weight = 0;  // what a match of the size is worth: the rarer in the pattern, the more
    bool size_varies = false;
  };

  static std::uint64_t SizedToken(std::uint64_t key, std::uint64_t call_site) noexcept {
    return recurrence::Mix(key, call_site) | 1;
  }
  static std::uint64_t UnsizedToken(std::uint32_t stream, std::uint64_t call_site) noexcept {
    return recurrence::Mix(~std::uint64_t{stream}, call_site) | 1;
  }

  static std::uint64_t RepeatToken(std::uint32_t stream, std::uint32_t distance) noexcept {
    return distance == 0 ? 0 : recurrence::Mix(std::uint64_t{distance} << 32 | stream, ~std::uint64_t{1}) | 1;
  }

  // What a request is called in the context of others: as the pattern calls it, if it knows it.
  std::uint64_t TokenOf(std::uint64_t key, std::uint32_t stream, std::uint64_t call_site,
                        std::uint32_t repeat_distance) const noexcept;

  bool Lacks(const Request& request) const noexcept;

  static constexpr std::uint32_t kContext = 4;

  std::vector<Entry> entries;
  std::vector<std::uint32_t> used_in;  // the epoch in which the request was last handed out
  recurrence::PositionIndex by_token;
  recurrence::PositionIndex by_context;  // by the last of kContext tokens, from one iteration into the next
  bool has_unnamed = false;              // a request's size varies, and its call site is not known
  bool scales = false;                   // see PatternRequest
  std::uint64_t first_block = 0;
  bool exact = false;
};

}  // namespace stalloc::runtime
