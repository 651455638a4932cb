// How the sizes of an iteration's requests follow from a few of them that come first.
//
// Where an iteration repeats its requests while sizes scale (with the sequence length, say), most sizes are a constant,
// an affine function of one size that is seen early, such a function cut off at a constant (a workspace with a largest
// size), or one rounded up to a power of two. A law is accepted only if it is exact on every example. Thread-safe; may
// allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/model.h"

namespace stalloc::planner {

// size = clamp(round_up((multiplier * x + addend) / divisor, grain), at_least, at_most), x the size of `parameter`.
struct SizeLaw {
  enum class Kind : std::uint8_t {
    kConstant,  // at_most, whatever the parameters are
    kExact,     // the formula, exact on all examples
    kGuess,     // the largest ratio to the first parameter that was seen, up to a limit if one was: room to keep free
  };
  Kind kind = Kind::kConstant;
  std::uint32_t parameter = 0;  // index into SizeLaws::parameters
  std::int64_t multiplier = 0;
  std::int64_t addend = 0;
  std::int64_t divisor = 1;  // > 0
  Bytes grain = 1;
  Bytes at_least = 1;
  Bytes at_most = kUnlimited;

  Bytes At(Bytes x) const;
};

struct SizeLaws {
  std::vector<std::size_t> parameters;  // requests, at most two, that the others are predicted from, by rising index
  std::vector<SizeLaw> laws;            // one for each request

  // Sizes of all requests. `values[k]` is the size of request parameters[k].
  std::vector<Bytes> Predict(const std::vector<Bytes>& values) const;
  std::size_t Guesses() const;  // requests whose law is a guess
};

// examples[k][i] is the size of request i in example k; all have the same number of requests. Parameters are taken from
// the first `early` requests whose sizes vary: the one that most others follow from, then the one that most of the rest
// follow from. A line needs three examples of different x, one through the origin two. O(early x requests x examples).
SizeLaws LearnSizes(const std::vector<std::vector<Bytes>>& examples, std::size_t early = 32);

}  // namespace stalloc::planner
