// Matcher::Prepared: a pattern as the serving path needs it, with the indices by which a lost place is found again.
//
// Built off the serving path; from then on only `used_in` changes, under the device's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "recurrence_index.h"
#include "runtime/recurrence.h"

namespace stalloc::runtime {

class Matcher::Prepared {
 public:
  explicit Prepared(const Pattern& pattern);

  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(entries.size()); }

  // A request's identity regardless of its place. 0: it has none (its size varies and its call site is not known), so
  // that only its place in the order tells it.
  struct Entry {
    std::uint64_t key = 0;  // Matcher::Key(size, stream)
    std::uint64_t call_site = 0;
    std::uint64_t token = 0;
    std::uint64_t size_bytes = 0;
    std::uint32_t stream = 0;
    bool size_varies = false;
  };

  static std::uint64_t SizedToken(std::uint64_t key, std::uint64_t call_site) noexcept {
    return recurrence::Mix(key, call_site) | 1;
  }
  static std::uint64_t UnsizedToken(std::uint32_t stream, std::uint64_t call_site) noexcept {
    return recurrence::Mix(~std::uint64_t{stream}, call_site) | 1;
  }

  // What a request is called in the context of others: as the pattern calls it, if it knows it.
  std::uint64_t TokenOf(std::uint64_t key, std::uint32_t stream, std::uint64_t call_site) const noexcept;

  static constexpr std::uint32_t kShortContext = 2;
  static constexpr std::uint32_t kLongContext = 4;

  std::vector<Entry> entries;
  std::vector<std::uint32_t> used_in;  // the epoch in which the request was last handed out
  recurrence::PositionIndex by_token;
  recurrence::PositionIndex by_short_context;  // by the last token of kShortContext
  recurrence::PositionIndex by_long_context;   // by the last token of kLongContext, from one iteration into the next
  std::uint64_t first_block = 0;
  bool exact = false;
};

}  // namespace stalloc::runtime
