// Who survives: the non-dominated within the box that the corners bound, spread by angle. Private to planner/;
// thread-safe.
//
// The principle of adding the candidate that is farthest by angle from those already chosen is VaEA's (Xiang, Zhou, Li,
// Chen, IEEE Transactions on Evolutionary Computation 21(1), 2017).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "objective_table.h"

namespace stalloc::planner {

struct Survivors {
  std::vector<std::uint32_t> rows;     // at most `count`, each once
  std::vector<std::uint32_t> corners;  // of all rows; all of them survive, if there is room
  std::vector<double> nadir;
};

// Chooses `count` rows, or all where there are no more. Non-dominated rows (see ObjectiveTable::NonDominated) come
// first; among more than `count` of those, the rows not beyond the nadir point in any objective; among more than
// `count` of these, the corners, then, one by one, the row whose smallest angle to a chosen one, seen from the ideal
// point and scaled by the nadir point, is largest. Where too few are left, the nearest to the ideal point follow.
Survivors SelectSurvivors(const ObjectiveTable& table, std::size_t count, double resolution);

}  // namespace stalloc::planner
