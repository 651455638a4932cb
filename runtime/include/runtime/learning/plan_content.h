// What a kept plan is a plan of, told apart from whose it is: two ranks of one program that behave equally make plans
// of the same content, whatever their process, device and addresses are.
//
// The content is the iteration's requests in their order (call site, size, stream), and the blocks that the program
// makes once and keeps. Not in it are
//   slots       two searches for the same places may end differently, and either answer serves both ranks
//   the start   a pattern begins where the learner happened to look: the iteration is taken as the circle that it is
//   lifetimes   when a block is freed depends on threads: it differs a little between ranks, and between two runs of
//               one rank, which the plan bears. AreAlike tells where it differs so much that a plan of one does not
//               fit the other
//   small blocks that stay (a counter, what one rank alone keeps for its log): without a place they cost nothing
//
// Pure; any thread; linear in the plan's requests.
#pragma once

#include <cstdint>

#include "planner/plan.h"

namespace stalloc::runtime {

// Of the plan's requests, with slots or without. Never 0.
std::uint64_t ContentKey(const planner::Plan& plan);

// Do plans of the same content have lifetimes so close that either serves both programs? Where sizes scale, those of
// two configurations must also begin alike: the one's program does not follow the other's plan otherwise
// (plan_follower_candidates.cpp).
bool AreAlike(const planner::Plan& a, const planner::Plan& b);

}  // namespace stalloc::runtime
