// From random keys (Bean, ORSA Journal on Computing 6(2), 1994) to a plan: the keys say in which order, below which
// ceiling and with how much room the packer places requests; every vector of keys in [0, 1] is a complete, valid plan.
// Private to planner/; one object a thread.
//
// A key for each request would leave most of a short search without effect. Requests of one size and stream share
// their keys instead, and the order as a whole is a blend of whole orders: those in which the solvers' plans lie from
// bottom to top, and those that the greedy solvers use.
//
//   keys   blend        one weight for each base order
//          spread       how far the groups' own keys move requests away from the blend
//          ceiling      0: the lower bound, so that what does not fit below is paged; 1: none, nothing is paged
//          waits        0: no memory is taken over behind a wait; then that of ever smaller blocks, too
//          kept         share of the groups whose requests stay where the incumbent has them, if that is free
//          growth       how much larger requests are placed than they are, up to PlanMerits::headroom's eighth
//          grown        share of the groups that growth is for
//          groups       three for each: its order, and its places among those kept and grown
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "instance.h"
#include "orders.h"
#include "page_packer.h"
#include "planner/page_plan.h"

namespace stalloc::planner {

class PlanDecoder {
 public:
  // `problem` must outlive this and be well formed; `bases` are orders of all its requests, at least one.
  PlanDecoder(const PageProblem& problem, const std::vector<Order>& bases);

  std::size_t keys() const { return kSingleKeys + ranks_.size() + 3 * groups_; }

  struct Settings {
    double ceiling = 1;
    double waits = 1;
    double kept = 0;
    double growth = 0;  // of all that are not kept
  };

  // Keys that decode to what packing in base order `base` gives under the settings. Groups with more bytes are kept,
  // and grown, before others.
  std::vector<double> KeysOf(std::size_t base, const Settings& settings) const;

  std::vector<Slot> Decode(std::span<const double> keys);

 private:
  static constexpr std::size_t kSingleKeys = 6;
  static constexpr std::size_t kWaitLevels = 8;
  static constexpr std::size_t kMaxGroups = 64;

  // What may be taken over behind a wait.
  struct Level {
    Instance instance;
    PagePacker packer;

    Level(const Problem& problem, std::vector<Bytes> sizes, Bytes paged_from);
  };

  void MakeGroups();
  Level& LevelOf(double key);
  Order OrderOf(std::span<const double> keys) const;
  Slot Place(Level& level, std::uint32_t request, std::uint64_t ceiling_pages, Bytes grown_size);

  const PageProblem& problem_;
  const bool waits_;  // there can be any
  std::vector<Bytes> sizes_;
  std::vector<std::vector<double>> ranks_;  // by base order and request, in [0, 1)
  std::vector<std::size_t> group_;          // of each request
  std::size_t groups_ = 0;
  std::uint64_t lowest_pages_ = 0;
  std::uint64_t highest_pages_ = 0;             // of the incumbent, or a quarter above the lowest
  std::vector<std::unique_ptr<Level>> levels_;  // made when first asked for
};

}  // namespace stalloc::planner
