// Recurrence: finds the iteration in a stream of requests, and recognises its requests when they come again.
//
// Two parts, both pure (no CUDA, no locks, no clock), one instance of each a device:
//   IterationFinder  observations in, the repeating pattern out. Runs on the background thread.
//   Matcher          the pattern in force; says for each allocation which request of the pattern it is. Runs on the
//                    serving path, under the device's lock: it neither allocates nor throws after SetPattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/observation.h"

namespace stalloc::runtime {

// One request of the repeating pattern. Times are event ordinals from the iteration's first request; end may lie beyond
// the period (the block is freed in the next iteration).
struct PatternRequest {
  std::uint64_t call_site = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t occurrence = 0;     // among the pattern's requests of the same (call site, size; size ignored if varies)
  std::uint32_t stream = 0;
  std::int64_t begin = 0;           // [0, period)
  std::int64_t end = 0;             // > begin
  bool size_varies = false;         // the size differs between iterations: recognised by call site, not planned
  bool persists = false;            // seen to outlive a whole iteration: not planned
  std::uint64_t example_block = 0;  // allocation number of this request in the iteration that the pattern was taken from
};

struct Pattern {
  std::vector<PatternRequest> requests;  // in program order
  std::int64_t period = 0;               // events (allocations and frees) in one iteration
  std::uint64_t first_block = 0;         // allocation numbers [first_block, last_block) made up the example iteration
  std::uint64_t last_block = 0;
};

class IterationFinder {
 public:
  IterationFinder();
  ~IterationFinder();

  // Appends observations, in order. Keeps a bounded window (older ones are dropped).
  void Observe(std::span<const Observation> observations);

  // Looks for a pattern in what was seen. Returns one when the last iterations repeat (at least two whole ones), and
  // nothing otherwise; calling it again after more observations may return a better or a changed pattern. Cost is
  // about linear in the window.
  std::optional<Pattern> Find();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Matcher {
 public:
  static constexpr std::int32_t kNone = -1;

  Matcher();
  ~Matcher();

  // Puts a pattern in force (off the serving path; allocates). The next Match starts a search for the place.
  void SetPattern(const Pattern& pattern);
  void Clear();
  bool HasPattern() const;

  // True if a request of this size and stream is the one expected next, so that its call site need not be taken.
  // May be asked without the device's lock: the answer is a hint, Match decides.
  bool Expects(std::uint64_t size_bytes, std::uint32_t stream) const noexcept;

  // Which request of the pattern this allocation is, or kNone (inserted, changed or unknown). `call_site` is 0 where
  // Expects said true or where the trace has none. Advances.
  std::int32_t Match(std::uint64_t size_bytes, std::uint32_t stream, std::uint64_t call_site) noexcept;

  // Share of the last whole iteration's requests that matched, 0 to 1: falls when the program has changed.
  double LastIterationMatchRate() const noexcept;
  std::uint64_t IterationsSeen() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stalloc::runtime
