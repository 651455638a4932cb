// The search for the iteration's period: spans of requests in, the last whole iteration out.
//
// Pure functions, used by the background thread; they allocate. Cost is about linear in the requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "recurrence/recurrence_window.h"
#include "runtime/recurrence/recurrence.h"

namespace stalloc::runtime::recurrence {

// Where sizes scale, so much more than the largest iteration held may be planned for.
inline constexpr double kMostOverPeak = 0.01;

// The last whole iteration is requests [begin, end), the one before it [previous, begin). requests[end] was seen.
struct Iteration {
  std::size_t previous = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t run = 0;  // requests at the window's end that repeat with this period
  bool exact = false;
  std::vector<std::int32_t> pairs;  // Align(the one before, this one), if it is known already
  std::vector<std::size_t> starts;  // where those that only resemble each other begin, oldest first, this one included
  std::size_t length() const noexcept { return end - begin; }
};

// A period p with run >= 2 p, that is no multiple of a shorter one, of the last elements of `tokens`.
struct Period {
  std::size_t length = 0;
  std::size_t run = 0;
};

// All such periods, shortest first: at most about log(n) of them.
std::vector<Period> PrimitivePeriods(std::span<const std::uint64_t> tokens);

// Iterations that are equal, request for request, for static models. Longest first.
std::vector<Iteration> ExactIterations(std::span<const Request> requests);

// Whether two pieces of a program are about equally long: within 5 %.
inline bool SameLength(std::size_t a, std::size_t b) { return 20 * (a < b ? b - a : a - b) <= (a < b ? b : a); }

// Iterations that only resemble each other (numbers of requests or sizes change), cut where the live bytes return to
// their lowest. Longest first. `known_length` is that of the iterations found before, 0 if there were none.
std::vector<Iteration> SimilarIterations(std::span<const Request> requests, std::size_t known_length);

// For each request of `current` the one of `previous` that it corresponds to, or -1.
std::vector<std::int32_t> Align(std::span<const Request> previous, std::span<const Request> current);

// The pattern of the iteration. `varied_before`, if not empty, says of each request of the iteration before whether its
// size was known to vary.
Pattern MakePattern(std::span<const Request> requests, const Iteration& iteration,
                    const std::vector<bool>& varied_before = {});

// The pattern of iterations whose sizes scale together, all of them planned for the largest seen; nullopt where they do
// not, or where that takes more memory than the largest iteration does. See recurrence_scaled.cpp.
std::optional<Pattern> ScaledPattern(std::span<const Request> requests, const Iteration& iteration);

// Whether so many of the pattern's sizes vary without room for the largest that a plan of the rest is not worth it.
bool VariesWidely(const Pattern& pattern);

}  // namespace stalloc::runtime::recurrence
