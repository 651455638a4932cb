// Recurrence: finds the iteration in a stream of requests, and recognises its requests when they come again.
//
// Two parts, both pure (no CUDA, no locks, no clock), one instance of each a device:
//   IterationFinder  observations in, the repeating pattern out. Runs on the background thread.
//   Matcher          the pattern in force; says for each allocation which request of the pattern it is. Runs on the
//                    serving path, under the device's lock: only Prepare allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/recurrence/observation.h"

namespace stalloc::runtime {

// One request of the repeating pattern. Times are event ordinals from the iteration's first request; end may lie beyond
// the period (the block is freed in the next iteration).
struct PatternRequest {
  std::uint64_t call_site = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t occurrence = 0;  // among the pattern's requests of the same (call site, size; size ignored if varies)
  std::uint32_t stream = 0;
  std::int64_t begin = 0;    // [0, period)
  std::int64_t end = 0;      // > begin
  bool size_varies = false;  // the size differs between iterations: recognised by call site, not planned ...
  bool scales = false;       // ... unless all sizes scale together: size_bytes is the largest seen, room for any other
  bool persists = false;     // seen to outlive a whole iteration: not planned
  std::uint64_t example_block = 0;  // its allocation number in the iteration that the pattern was taken from
};

struct Pattern {
  std::vector<PatternRequest> requests;  // in program order
  std::int64_t period = 0;               // events (allocations and frees) in one iteration
  std::uint64_t first_block = 0;         // allocation numbers [first_block, last_block) made up the example iteration
  std::uint64_t last_block = 0;
  bool exact = false;  // the last two iterations were the same, request for request
};

class IterationFinder {
 public:
  IterationFinder();
  ~IterationFinder();

  // Appends observations, in order. Keeps a bounded window (older ones are dropped). An allocation that the matcher
  // recognised must carry the pattern's call site here, although it was not taken: identity must not change with the
  // state of the matcher.
  void Observe(std::span<const Observation> observations);

  // Looks for a pattern in what was seen. Returns one when the last iterations repeat (at least two whole ones), and
  // nothing otherwise ("nothing" is no reason to drop a pattern in force: an evaluation may be under way); calling it
  // again after more observations may return a better or a changed pattern. Cost is about linear in the window.
  std::optional<Pattern> Find();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Matcher {
 public:
  static constexpr std::int32_t kNone = -1;
  static constexpr std::uint64_t kUnknownBlock = ~std::uint64_t{0};

  // A pattern with its indices, built before the device's lock is taken and installed under it.
  class Prepared;
  struct PreparedDeleter {
    void operator()(Prepared* prepared) const noexcept;
  };
  using PreparedPattern = std::unique_ptr<Prepared, PreparedDeleter>;
  static PreparedPattern Prepare(const Pattern& pattern);

  Matcher();
  ~Matcher();

  // Puts a pattern in force without allocating, and hands back the one that it replaces, to be destroyed outside the
  // lock. `next_block` is the number of the next allocation on this device, if known: in an exact pattern it tells the
  // place; otherwise the next Match starts a search for it. A null `pattern` leaves none in force.
  PreparedPattern Install(PreparedPattern pattern, std::uint64_t next_block = kUnknownBlock) noexcept;

  // A size and a stream in one word. Streams beyond 2^15 and sizes beyond 2^48 may collide: Match would then hand out a
  // slot of another size, so such requests never match.
  static constexpr std::uint64_t kNoKey = ~std::uint64_t{0};
  static constexpr std::uint64_t kNeverExpected = kNoKey - 1;
  static constexpr std::uint64_t Key(std::uint64_t size_bytes, std::uint32_t stream) noexcept {
    if (size_bytes >> 48 != 0 || stream >= 0x7fff) return kNeverExpected;
    return std::uint64_t{stream} << 48 | size_bytes;
  }

  // The key of the request expected next, whose call site need not be taken; kNoKey: none is.
  std::uint64_t ExpectedKey() const noexcept { return expected_; }
  bool Expects(std::uint64_t size_bytes, std::uint32_t stream) const noexcept {
    return expected_ == Key(size_bytes, stream);
  }

  // Which request of the pattern this allocation is, or kNone (inserted, changed or unknown). `call_site` is 0 where
  // Expects said true or where the trace has none. Advances. Each request is returned at most once an iteration, and
  // its size and stream are those of the pattern unless `size_varies`.
  std::int32_t Match(std::uint64_t size_bytes, std::uint32_t stream, std::uint64_t call_site) noexcept {
    if (Expects(size_bytes, stream) && (call_site == 0 || call_site == expected_site_)) return TakeExpected();
    return pattern_ == nullptr ? kNone : Search(size_bytes, stream, call_site);
  }

  // The call site of a request that Match returned; 0 where the pattern was found without call sites.
  std::uint64_t CallSiteOf(std::int32_t index) const noexcept;

  // The request expected next, or kNone while there is no pattern.
  std::int32_t Position() const noexcept { return pattern_ == nullptr ? kNone : static_cast<std::int32_t>(cursor_); }

  // Iterations whose end was passed since the pattern was put in force: a change is an iteration boundary.
  std::uint64_t IterationsSeen() const noexcept { return iterations_; }

 private:
  friend class Prepared;
  struct Request;
  std::int32_t TakeExpected() noexcept;
  std::int32_t Take(std::uint32_t position, std::uint64_t key) noexcept;
  std::int32_t Search(std::uint64_t size_bytes, std::uint32_t stream, std::uint64_t call_site) noexcept;
  void CloseIteration() noexcept;
  void Aim() noexcept;
  std::int32_t Miss() noexcept;
  void KeepAhead(std::uint32_t offset) noexcept;
  void BeginSearch(std::int32_t position, bool may_leave_out = false) noexcept;
  std::int32_t Advance(const Request& request) noexcept;
  std::int32_t FindAnywhere(const Request& request) const noexcept;
  std::int32_t MatchScore(std::uint32_t position, const Request& request) const noexcept;
  std::uint32_t ContextLength(std::uint32_t position) const noexcept;
  std::uint32_t RepeatDistance(std::uint64_t key) const noexcept;
  void Remember(std::uint64_t token, std::uint64_t key) noexcept;

  std::uint64_t expected_ = kNoKey;
  std::uint64_t expected_site_ = 0;
  PreparedPattern pattern_;
  std::uint32_t cursor_ = 0;         // the request expected next
  std::uint32_t misses_ = 0;         // requests since the last that matched
  std::uint32_t recent_misses_ = 0;  // a running count that forgets
  std::int32_t last_place_ = 0;      // where the last request seemed to match, believed or not; kNowhere
  std::uint32_t epoch_ = 1;          // the current iteration, as marked on the requests used in it
  std::uint64_t iterations_ = 0;

  // Out of step: scores of the places where the program may be. scores_[k] is of "request base_ + k comes next", where
  // what lies below 0 is past, and from the pattern's size on is in the next iteration.
  static constexpr std::uint32_t kPlaces = 256;
  static constexpr std::int32_t kNowhere = -(1 << 30);
  bool searching_ = false;
  std::uint32_t since_jump_ = 0;  // requests searched for since the last jump to a place outside the window
  std::uint32_t in_a_row_ = 0;    // requests that matched one after the other while searching
  std::int32_t base_ = 0;
  std::uint32_t places_ = 0;
  std::int32_t scores_[kPlaces] = {};

  // The last requests: the context by which a place is found again.
  static constexpr std::uint32_t kHistory = 16;
  std::uint64_t history_[kHistory] = {};  // as the pattern calls them; 0: they have no name
  std::uint64_t recent_keys_[kHistory] = {};
  std::uint32_t history_length_ = 0;
};

}  // namespace stalloc::runtime
