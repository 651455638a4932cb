// New points from old ones, in a box. Private to planner/; one object a thread.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace stalloc::planner {

class Variation {
 public:
  Variation(std::vector<double> lower, std::vector<double> upper, std::uint64_t seed);

  std::vector<double> RandomPoint();

  // Simulated binary crossover (Deb & Agrawal 1995; distribution index 20) of two points into two.
  void Cross(std::vector<double>* a, std::vector<double>* b);

  // Polynomial mutation (Deb & Goyal 1996; distribution index 20) of one variable on average.
  void Mutate(std::vector<double>* point);

  // Mutation of a corner: one variable on average, by a step whose tail is the heavier the larger `tail` is (0: no
  // step), so that far leaps become rarer as the search goes on. The operator of MOEA/D-M2M (Liu, Gu, Zhang 2014).
  void MutateFar(std::vector<double>* point, double tail);

  double Unit();  // in [0, 1)
  std::size_t Below(std::size_t count);
  void Shuffle(std::span<std::uint32_t> items);

 private:
  std::vector<double> lower_;
  std::vector<double> upper_;
  std::mt19937_64 random_;
};

}  // namespace stalloc::planner
