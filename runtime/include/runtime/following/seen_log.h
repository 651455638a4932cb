// SeenLog: what the program does with a device's memory, put down as it comes, for the learner to fetch.
//
// Bounded: what finds no room is lost, and it is said that something was. Under the device's lock, but for on(), which
// any thread may ask, and MakeRoom, which alone allocates.
#pragma once

#include <atomic>
#include <vector>

#include "runtime/base/granule.h"
#include "runtime/pages/view_table.h"
#include "runtime/recurrence/observation.h"

namespace stalloc::runtime {

class SeenLog {
 public:
  // A request or a free, beside where the block lay; or that the program ordered one stream behind another.
  struct Entry {
    Observation observation;
    Granule begin = 0;  // in the base range, if view is kNoView; else in the view's first page
    ViewIndex view = kNoView;
    StreamIndex stream = kNoStream;
    bool order = false;  // no request and no free: there is no observation
    Fence fence{};  // of a free: its place in its stream's order. Of an order: what `stream` is behind from here on
  };

  // Empties `entries` and makes room in it for as many as are put down.
  static void MakeRoom(std::vector<Entry>* entries);

  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }
  // `room` is empty, and what the log had is in it afterwards. While the log is on it has room made by MakeRoom.
  void Set(bool on, std::vector<Entry>* room) noexcept;
  // Hands out what was put down since the last call, and whether something was lost, for `room`, made by MakeRoom.
  bool Take(std::vector<Entry>* room) noexcept;

  // An empty record to fill in, where it stays: one that is put together elsewhere and copied in wider words makes
  // every request wait for what it has just written. nullptr: there is no room.
  Entry* Add() {
    if (entries_.size() < entries_.capacity()) return &entries_.emplace_back();
    lost_ = true;
    return nullptr;
  }

 private:
  std::atomic<bool> on_{false};
  std::vector<Entry> entries_;
  bool lost_ = false;
};

}  // namespace stalloc::runtime
