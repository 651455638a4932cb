// What the exact search knows at a node of its tree: which blocks are placed, and how low each block left can still
// lie.
//
// Every block lies on top of others or at 0, and a block is placed when nothing left can lie below it (after
// MiniMalloc, Moffitt, ASPLOS 2023). So the state is a skyline: for each block left a support, the top of the placed
// blocks below it, and a lowest offset, which is the support or above it where a branch has refused that place. From
// these follows, until nothing new does:
//   - what is left of a slot fits between the lowest of its lowest offsets and the ceiling;
//   - a block that does not fit below certain others of its slot comes after one of them, as jobs on a machine;
//   - a block refused at its support rests on one that is left, and so on or above the lowest top of those.
//
// With an order between streams, blocks may exclude each other though they share no slot. What follows from slots still
// holds, for all blocks of a slot exclude each other; supports and what a refused block can rest on go by exclusion.
//
// Private to planner/; one thread at a time. Instances with fixed blocks are not for it.
#pragma once

#include <cstdint>
#include <vector>

#include "instance.h"

namespace stalloc::planner {

class Skyline {
 public:
  using Index = std::uint32_t;

  // What is left in a slot.
  struct View {
    Bytes floor = 0;  // the lowest lowest offset
    Bytes end = 0;    // the lowest support + size
    Index ties = 0;   // blocks at the floor
  };

  Skyline(const Instance& instance, Bytes ceiling);

  // What follows from the state, before the first block is placed. The calls below say likewise whether a placement at
  // or below the ceiling may still exist.
  bool Begin();
  // Puts i on its support. *splits: in some slot no block left crosses to the next any more.
  bool Place(Index i, bool* splits);
  // i, and what is like it, does not lie on its support. `part` holds at least the blocks left that i excludes.
  bool Refuse(Index i, const std::vector<Index>& part);
  // Lifts what was refused to where it can rest on something left. `part` as above.
  bool LiftRefused(const std::vector<Index>& part);

  std::size_t Mark() const { return trail_.size(); }
  void TakeBack(std::size_t mark);  // all changes since Mark() returned `mark`

  // Of a block left: where it would come to rest now; of a placed one its offset.
  Bytes Support(Index i) const { return support_[i]; }
  bool Refused(Index i) const { return lowest_[i] != support_[i]; }
  // Whether i would lie on a smaller block of the same lifetime: the two belong the other way round.
  bool OutOfOrder(Index i) const;
  // Whether a block left that shares no slot with i, but excludes it, could still come to lie below it.
  bool Undercut(Index i) const;
  const Block& Extent(Index i) const { return extent_[i]; }
  const View& At(Slots t) const { return view_[t]; }
  Bytes Left(Slots t) const { return left_[t]; }  // bytes of the blocks left in a slot
  const std::vector<Bytes>& Offsets() const { return support_; }

 private:
  struct Undo {
    enum class What : std::uint8_t { kSupport, kLowest, kPlaced, kView } what;
    Index index;
    Bytes value;   // kSupport, kLowest, kView (floor): as before
    Bytes end;     // kView
    Index holder;  // kPlaced: top_of_class_ as before; kView: ties
  };
  struct Job {
    Bytes end;  // at the earliest
    Index index;
  };

  template <typename Visit>
  void ForSlots(Index i, Visit visit) const {
    const Block& block = instance_.blocks[i];
    Slots t = block.first;
    for (;;) {
      visit(t);
      if (t == block.last) return;
      t = t + 1 == instance_.slots ? 0 : t + 1;
    }
  }

  // Slots t such that the block reaches from t into the next one.
  template <typename Visit>
  void ForCrossings(Index i, Visit visit) const {
    const Block& block = extent_[i];
    for (Slots t = block.first; t != block.last; t = t + 1 == instance_.slots ? 0 : t + 1) visit(t);
  }

  void FindClasses();
  void Unplace(Index i, Index holder);
  void Enqueue(Slots t);
  void RaiseLowest(Index i, Bytes height);
  bool Propagate();
  bool Visit(Slots t);
  bool Lift(Slots t);

  const Instance& instance_;
  const Bytes ceiling_;
  Bytes unit_ = 0;  // every offset is a multiple of it: the greatest common divisor of the sizes

  std::vector<Block> extent_;        // see Instance::Extent
  std::vector<Index> class_;         // of those that exclude the same blocks and each other: its first block
  std::vector<Index> top_of_class_;  // the block of the class placed last, plus one
  std::vector<Bytes> support_;
  std::vector<Bytes> lowest_;  // of a block left: no placement of the branch has it lower; >= support_
  std::vector<char> placed_;
  std::vector<std::vector<Index>> neighbours_;  // per block: those that it excludes
  std::vector<std::vector<Index>> beyond_;      // per block: those of them that share no slot with it

  std::vector<View> view_;              // per slot
  std::vector<Bytes> left_;             // per slot: bytes of blocks left
  std::vector<std::int32_t> crossing_;  // per slot: blocks left that reach into the next one
  std::vector<std::vector<Index>> at_;  // per slot: blocks, those left first
  std::vector<std::size_t> left_in_slot_;

  std::vector<Undo> trail_;
  std::vector<Slots> queue_;  // slots to be looked at again
  std::vector<char> queued_;
  std::vector<Slots> crowded_;  // slots in which some block may not be the lowest one
  std::vector<char> in_crowded_;
  std::vector<Job> jobs_;    // of Lift
  std::vector<Bytes> sums_;  // of Lift
};

}  // namespace stalloc::planner
