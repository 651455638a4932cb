// LifetimePredictor: will a block still be live when memory is tight?
//
// A training program does in each iteration what it did in the one before, so that what came just before a request says
// which one it is, even where sizes differ from iteration to iteration: the sizes of the requests before, to a power of
// two, and whether something was freed between them, are a path through the program. As branch predictors do that are
// built of tagged tables with histories of geometric lengths (Seznec, Michaud 2006: A case for (partially) tagged
// geometric history length branch prediction), it goes by the longest path that has been seen to matter.
//
// Used under the device's lock. Never allocates after construction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/base/granule.h"

namespace stalloc::runtime {

class LifetimePredictor {
 public:
  // A request and those before it, a byte each, the last one lowest: its size to a power of two, and above that how
  // many blocks were freed just before it. Never 0.
  using Path = std::uint64_t;

  LifetimePredictor() : tables_(std::make_unique<Tables>()) {}

  // A request comes.
  Path Follow(Granule granules) noexcept;
  // A block ends.
  void NoteFree() noexcept { ++frees_; }

  // nullopt: nothing is known of such a request.
  std::optional<bool> Lasts(Path path) const noexcept;

  // What became of the request, and what had been said of it.
  void Learn(Path path, bool guessed, bool lasted) noexcept;

 private:
  // How many requests before it a table looks at.
  static constexpr std::array<unsigned, 5> kHistories{0, 1, 2, 4, 7};
  static constexpr unsigned kMostFrees = 3;      // as many as are told apart
  static constexpr std::size_t kEntries = 4096;  // a table: a program has some hundreds of paths
  static constexpr std::int8_t kSurelyNot = -2;  // at -1 and below it does not last
  static constexpr std::int8_t kSurely = 1;      // at 0 and above it does

  struct Entry {
    std::uint16_t tag = 0;  // 0: unused
    std::int8_t counter = 0;
  };
  using Tables = std::array<std::array<Entry, kEntries>, kHistories.size()>;

  struct Place {
    std::size_t entry;
    std::uint16_t tag;
  };
  static Place PlaceOf(Path path, std::size_t table) noexcept;
  // The table with the longest history that knows the path; none: their number.
  std::size_t Provider(Path path) const noexcept;

  std::unique_ptr<Tables> tables_;
  Path path_ = 0;
  unsigned frees_ = 0;  // since the last request
};

}  // namespace stalloc::runtime
