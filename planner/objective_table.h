// Objective values of a population, one row for each member. Private to planner/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace stalloc::planner {

class ObjectiveTable {
 public:
  ObjectiveTable(std::size_t rows, std::size_t objectives) : objectives_(objectives), values_(rows * objectives) {}

  std::size_t rows() const { return values_.size() / objectives_; }
  std::size_t objectives() const { return objectives_; }
  std::span<double> operator[](std::size_t row) { return {values_.data() + row * objectives_, objectives_}; }
  std::span<const double> operator[](std::size_t row) const {
    return {values_.data() + row * objectives_, objectives_};
  }

  // The least of each column; no rows: nothing.
  std::vector<double> Ideal() const;

  // The rows that no other dominates, in order, where values are compared as multiples of `resolution` (0: exactly).
  std::vector<std::uint32_t> NonDominated(double resolution) const;

 private:
  std::size_t objectives_;
  std::vector<double> values_;
};

}  // namespace stalloc::planner
