// MemorySearch: where can a request lie? The online policy, apart from what carries it out.
//
// Looks, never takes: it reads the free space, the kept views and the order between streams, and answers with a place
// to claim. What it writes is FreeHistory, in Exchange. Called under the device's lock; may allocate scratch memory
// only in Stitch, Exchange and Grow, which precede driver calls that cost far more.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/order/stream_table.h"
#include "runtime/pages/free_history.h"
#include "runtime/pages/free_space.h"
#include "runtime/pages/view_table.h"

namespace stalloc::runtime {

struct Found {
  enum class Kind : std::uint8_t { kNothing, kRun, kView, kPages, kExchange };
  Kind kind = Kind::kNothing;
  Run run{};                        // kRun: granules to claim in the base range
  ViewIndex view = kNoView;         // kView: its first pages
  std::vector<PageNumber> pages{};  // kPages: to be mapped as a new view; kExchange: the view's pages from now on
  Granule head = 0;                 // kPages: where in its first page the block begins
  std::vector<std::uint32_t> exchanged{};  // kExchange: the positions at which `pages` differs from the view
  std::size_t turns_cost = 0;              // kExchange: the view's from now on
  PageNumber new_pages = 0;                // how many of the pages do not exist yet

  explicit operator bool() const { return kind != Kind::kNothing; }
};

class MemorySearch {
 public:
  // May the request wait for other streams' work before it uses the memory?
  enum class Waits : bool { kNo = false, kYes = true };

  MemorySearch(const FreeSpace& space, ViewTable& views, const StreamTable& streams)
      : space_(space), views_(views), streams_(streams), free_history_(space.size() / kPageGranules) {}

  // The smallest room of existing memory, contiguous in the base range, that holds `granules`; not below granule
  // `from`. If there is none and `from` is 0, the smallest that several streams have left side by side.
  std::optional<Run> ContiguousRoom(Granule granules, StreamIndex stream, Waits waits, Granule from = 0) const;

  // The lowest such room (FreeSpace::Lowest), and the highest but for the largest, or that if there is no other; none
  // that several streams have left side by side, nor one to be waited for. What a stream has left is a room by itself
  // beside others' here, too.
  std::optional<Run> LowestRoom(Granule granules, StreamIndex stream, Granule from, const FlatMap<bool>& put_off) const;
  std::optional<Run> HighRoom(Granule granules, StreamIndex stream, Granule from) const;

  // Where a block lies that is laid at the front, or at the end, of its room.
  static Run FrontOf(Run room, Granule granules);
  static Run EndOf(Run room, Granule granules);
  // Of `usual`, the front and the end of its room that place which leaves the most whole pages free, for they are of
  // use to every later request, parts of pages to the smallest only. `usual` if it leaves as many, or the block is
  // small.
  static Run KeepingPagesWhole(Run room, Run usual);

  // A kept view whose first pages are all free, from where its blocks begin.
  Found KeptView(Granule granules, StreamIndex stream, Waits waits) const;

  // Pages from all over the base range for a new view: wholly free ones out of the largest rooms first, then at most
  // `max_new_pages` that do not exist yet, at or behind granule `from`. Only for requests of more than one page.
  Found Stitch(Granule granules, StreamIndex stream, Waits waits, PageNumber max_new_pages, Granule from) const;

  // Like Stitch, but begins or ends on pages that are free in part: a page less, or two. Only where a page more would
  // have to be held otherwise: a view that begins within a page serves few others.
  Found StitchParts(Granule granules, StreamIndex stream, Waits waits, PageNumber max_new_pages, Granule from) const;

  // A kept view most of whose pages are free, the others to be exchanged for free ones: for requests that differ a
  // little from iteration to iteration, a few mappings instead of all. One that is shorter by a few pages is
  // lengthened. Only views whose last block's work is known to have executed, for their addresses are unmapped. Pages
  // come first that were free most often when a view was found so (FreeHistory). At most `max_new_pages` of the pages
  // do not exist yet, at or behind granule `from`.
  Found Exchange(Granule granules, StreamIndex stream, Waits waits, PageNumber max_new_pages, Granule from);

  // Contiguous room with the fewest new pages, next to free memory where that helps; not below granule `from`.
  Found Grow(Granule granules, StreamIndex stream, Granule from) const;

  // True if a request on `stream` may use memory under `fence`.
  bool Usable(StreamIndex stream, Fence fence, Waits waits) const {
    if (fence.stream == kAbsent) return false;
    return waits == Waits::kYes || streams_.Behind(stream, fence);
  }

  // Pages of which a part is free that reaches their start or their end.
  struct PartPages {
    struct Part {
      PageNumber page;
      Granule granules;
    };
    std::vector<Part> starts;
    std::vector<Part> ends;
  };

  // Pages that do not exist, at or behind a granule.
  struct AbsentPages {
    Granule from = 0;
    PageNumber at_most = 0;
    std::vector<PageNumber> pages{};
  };

  // Whole free pages that a request may use, out of the largest rooms first: best fit takes the smallest ones for the
  // requests that come in between, so that what the largest were stitched to is still free when it is wanted again.
  // Sorted by falling room size, then address; `absent` receives its pages, by address; `parts` pages at or behind
  // absent->from that are free in part.
  std::vector<PageNumber> FreePages(StreamIndex stream, Waits waits, PageNumber at_most, AbsentPages* absent,
                                    PartPages* parts = nullptr) const;

  // True if every granule of `run` is free, exists, and is usable.
  bool RunUsable(Run run, StreamIndex stream, Waits waits) const;
  // True if also the granule before it is not, or that behind it.
  bool UsableAtEndOfRoom(Run run, StreamIndex stream) const;

 private:
  // Calls visit(StreamIndex, position) for the fragments of no stream, of the request's own, and of each other as far
  // as that is ordered behind it; all of those where it may wait.
  template <typename Visit>
  void VisitOrders(StreamIndex stream, Waits waits, Visit visit) const;
  // The one that `rooms` chooses from all of those that hold `granules`, without waiting.
  template <typename Rooms>
  std::optional<Run> RoomOf(Rooms rooms, Granule granules, StreamIndex stream, Granule from) const;

  const FreeSpace& space_;
  ViewTable& views_;
  const StreamTable& streams_;
  FreeHistory free_history_;  // when Exchange found a view
};

}  // namespace stalloc::runtime
