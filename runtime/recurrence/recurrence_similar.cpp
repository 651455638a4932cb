// Iterations that only resemble each other: a mixture of experts makes a few requests more or less in every step, a
// changing sequence length changes nearly every size, an evaluation comes between.
//
// They are cut where the live bytes come back to their lowest; the pieces are compared by their shape, the sequence of
// allocations and frees, which depends neither on sizes nor on call sites; and the kinds of piece must repeat.
#include <algorithm>
#include <array>
#include <cmath>

#include "recurrence/recurrence_period.h"

namespace stalloc::runtime::recurrence {

namespace {

constexpr std::size_t kLeastRequests = 32;
// Of the live bytes' rise: at most so much is live at a boundary. What a loader fetched ahead may be there, the
// gradients between two micro-batches should not: the least share that finds anything is right.
constexpr double kLowShares[] = {0.01, 0.03, 0.08};
constexpr double kHighOverLow = 2.5;  // ... and so many times more in between, even in the shortest of varying steps
constexpr double kShapeTolerance = 0.15;
constexpr double kSettled = 0.01;       // of the rise: so much may differ from one boundary to the next
constexpr std::size_t kHeldShare = 32;  // 1 / share of the requests may stay open

// Live bytes before each request, of the blocks that were freed within the window: what persists does not count, and
// what is under way at the window's end does not either.
std::vector<std::int64_t> PassingBytes(std::span<const Request> requests) {
  std::vector<std::int64_t> levels(requests.size());
  std::int64_t open_bytes = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    levels[i] = requests[i].live_bytes - open_bytes;
    if (requests[i].end == kOpen) open_bytes += static_cast<std::int64_t>(requests[i].size_bytes);
  }
  return levels;
}

// The first request of each piece.
std::vector<std::size_t> Boundaries(std::span<const std::int64_t> levels, double low_share) {
  const auto [lowest, highest] = std::minmax_element(levels.begin(), levels.end());
  const double rise = static_cast<double>(*highest - *lowest);
  const std::int64_t low = *lowest + static_cast<std::int64_t>(rise * low_share);
  const std::int64_t high = *lowest + static_cast<std::int64_t>(rise * low_share * kHighOverLow);

  std::vector<std::size_t> boundaries;
  std::int64_t usual = *lowest;  // the highest level of the boundaries so far
  bool in_valley = false;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (levels[i] > high) {
      if (in_valley) usual = std::max(usual, levels[boundaries.back()]);
      in_valley = false;
    } else if (levels[i] <= low) {
      if (!in_valley) {
        boundaries.push_back(i);
        in_valley = true;
      } else if (levels[i] < levels[boundaries.back()] && levels[boundaries.back()] > usual) {
        // Lower still. At the window's end the level falls for want of what is not freed yet, so that the first
        // request at a usual level is taken rather than the lowest.
        boundaries.back() = i;
      }
    }
  }
  if (in_valley && static_cast<double>(levels[boundaries.back()] - usual) > rise * kSettled) boundaries.pop_back();
  return boundaries;
}

struct Piece {
  std::size_t begin = 0, end = 0;
  std::size_t held = 0;            // requests whose blocks outlive the next piece too
  std::array<float, 512> shape{};  // how often each run of three (frees before an allocation, 0 to 7) occurs, in shares
  std::uint64_t kind = 0;
  std::size_t length() const noexcept { return end - begin; }
};

Piece MakePiece(std::span<const Request> requests, std::size_t begin, std::size_t end) {
  Piece piece;
  piece.begin = begin;
  piece.end = end;
  const std::int64_t horizon = requests[std::min(2 * end - begin, requests.size() - 1)].begin;
  unsigned run = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const std::int64_t frees = i + 1 < requests.size() ? requests[i + 1].begin - requests[i].begin - 1 : 0;
    run = (run << 3 | static_cast<unsigned>(std::min<std::int64_t>(frees, 7))) & 511;
    piece.shape[run] += 1.0f / static_cast<float>(end - begin);
    piece.held += requests[i].end > horizon;
  }
  return piece;
}

bool SameKind(const Piece& a, const Piece& b) {
  if (!SameLength(a.length(), b.length())) return false;
  float difference = 0;
  for (std::size_t i = 0; i < a.shape.size(); ++i) difference += std::abs(a.shape[i] - b.shape[i]);
  return difference / 2 <= kShapeTolerance;
}

// The pieces between the boundaries, each with its kind.
std::vector<Piece> Cut(std::span<const Request> requests, const std::vector<std::size_t>& boundaries) {
  std::vector<Piece> pieces;
  std::vector<std::size_t> examples;  // of each kind
  for (std::size_t k = 0; k + 1 < boundaries.size(); ++k) {
    pieces.push_back(MakePiece(requests, boundaries[k], boundaries[k + 1]));
    Piece& piece = pieces.back();
    while (piece.kind < examples.size() && !SameKind(pieces[examples[piece.kind]], piece)) ++piece.kind;
    if (piece.kind == examples.size()) examples.push_back(pieces.size() - 1);
  }
  return pieces;
}

// Whether earlier pieces hold blocks whose like the later ones free: see HeldFromBefore in the exact search. The first
// step's state of the optimizer is held too, but no later step has its like.
bool HeldFromBefore(std::span<const Request> requests, const std::vector<Piece>& pieces, std::size_t first) {
  const Piece& usual = pieces[first];
  const std::size_t many = usual.length() / kHeldShare + 4;
  for (std::size_t i = first; i-- > 0;) {
    if (pieces[i].held > many) {
      const std::size_t length = std::min(pieces[i].length(), usual.length() + usual.length() / 4);
      const auto earlier = requests.subspan(pieces[i].end - length, length);
      const auto later = requests.subspan(usual.begin, usual.length());
      const std::int64_t earlier_end = requests[pieces[i].end].begin, later_end = requests[usual.end].begin;
      const std::vector<std::int32_t> pairs = Align(earlier, later);
      std::size_t held = 0;
      for (std::size_t k = 0; k < later.size(); ++k)
        held +=
            pairs[k] >= 0 && earlier[static_cast<std::size_t>(pairs[k])].end > earlier_end && later[k].end <= later_end;
      return held > many;
    }
    if (pieces[i].kind != usual.kind) return false;
  }
  return false;
}

// Aligns the iteration with the one before. Returns whether at least half of its requests have their like there: what
// is alike in shape alone is not the same thing twice.
bool Correspond(std::span<const Request> requests, Iteration& iteration) {
  iteration.pairs = Align(requests.subspan(iteration.previous, iteration.begin - iteration.previous),
                          requests.subspan(iteration.begin, iteration.length()));
  const std::vector<std::int32_t>& pairs = iteration.pairs;
  return std::count(pairs.begin(), pairs.end(), -1) * 2 <= static_cast<std::ptrdiff_t>(pairs.size());
}

// Whether the iteration ends with as much live as it began with. (The level that its boundaries were found by leaves
// out what is not freed yet; this one does not.)
bool Closes(std::span<const Request> requests, const Iteration& iteration) {
  std::int64_t highest = 0;
  for (std::size_t i = iteration.begin; i < iteration.end; ++i) highest = std::max(highest, requests[i].live_bytes);
  const std::int64_t begin = requests[iteration.begin].live_bytes;
  const double change = std::abs(static_cast<double>(requests[iteration.end].live_bytes - begin));
  return change <= static_cast<double>(highest - begin) * kSettled;
}

}  // namespace

std::vector<Iteration> SimilarIterations(std::span<const Request> requests, std::size_t known_length) {
  const std::vector<std::int64_t> levels = PassingBytes(requests);
  std::vector<Iteration> iterations;
  // Near the window's end a boundary may be seen where there is none, for the level leaves out what is not freed yet:
  // the last piece is left out if nothing is found with it.
  for (const std::size_t left_out : {0, 1}) {
    for (double low_share : kLowShares) {
      std::vector<Piece> pieces = Cut(requests, Boundaries(levels, low_share));
      if (pieces.size() < left_out) continue;
      const std::size_t last_length = left_out != 0 ? pieces.back().length() : 0;
      pieces.resize(pieces.size() - left_out);
      std::vector<std::uint64_t> kinds;
      for (const Piece& piece : pieces) kinds.push_back(piece.kind);
      for (const Period& period : PrimitivePeriods(kinds)) {
        const std::size_t n = pieces.size(), p = period.length;
        Iteration iteration;
        iteration.previous = pieces[n - 2 * p].begin;
        iteration.begin = pieces[n - p].begin;
        iteration.end = pieces[n - 1].end;
        iteration.run = requests.size() - pieces[n - period.run].begin;
        for (std::size_t k = period.run / p; k > 0; --k) iteration.starts.push_back(pieces[n - k * p].begin);
        if (iteration.length() < kLeastRequests || iteration.length() < last_length) continue;
        if (requests.size() - iteration.end > 2 * iteration.length()) continue;  // something else has begun
        if (!Closes(requests, iteration)) continue;
        // Said once of iterations of this length, it need not be asked again.
        const bool known = SameLength(iteration.length(), known_length);
        if (known || (Correspond(requests, iteration) && !HeldFromBefore(requests, pieces, n - 2 * p)))
          iterations.push_back(iteration);
      }
      if (!iterations.empty()) break;
    }
    if (!iterations.empty()) break;
  }
  std::reverse(iterations.begin(), iterations.end());
  return iterations;
}

}  // namespace stalloc::runtime::recurrence
