// The members of a population that bound its trade-offs. Private to planner/; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "objective_table.h"

namespace stalloc::planner {

// Corners of two kinds, each row once, in rising order:
//   - for every objective, the row nearest to its axis through the ideal point: all the others are best together;
//   - for every objective, the row that is best in it alone, if it reaches beyond the corners of the first kind and its
//     objectives add up to less than 1.5 times theirs. The second condition keeps out rows that are hardly better in
//     one objective and hopeless in the rest ("dominance-resistant solutions"), which would inflate the nadir point.
// `candidates` are rows that do not dominate one another.
std::vector<std::uint32_t> SelectCorners(const ObjectiveTable& table, std::span<const std::uint32_t> candidates,
                                         std::span<const double> ideal);

// The largest value of the corners in each objective: the estimate of the nadir point.
std::vector<double> NadirOf(const ObjectiveTable& table, std::span<const std::uint32_t> corners);

}  // namespace stalloc::planner
