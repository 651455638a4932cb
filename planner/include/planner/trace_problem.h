// From a trace to the planning problem of one of its steps. Any thread; may allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "planner/model.h"
#include "planner/trace_event.h"

namespace stalloc::planner {

struct Trace {
  // What the program said of the order between its streams, just before events[before].
  struct Order {
    std::size_t before = 0;
    TraceEvent event;
  };

  // Requests, in the order in which they happened. A free names a block that was allocated before it.
  std::vector<TraceEvent> events;
  std::vector<std::uint32_t> steps;  // for each event the training step that it belongs to; empty: unknown
  std::vector<Order> order;          // by rising `before`
  // The stack frames of call sites, as a person reads them, innermost first. Not every call site need be here.
  std::unordered_map<std::uint64_t, std::vector<std::string>> frames;
};

// The events [first, last) of a trace.
struct Window {
  std::size_t first = 0;
  std::size_t last = 0;

  friend bool operator==(const Window&, const Window&) = default;
};

struct WindowProblem {
  Problem problem;                    // on a line; time is the ordinal of the event within the window
  std::vector<std::uint64_t> blocks;  // for each request the allocation number (TraceEvent::block) that it stands for
};

// All blocks that live at some moment of the window, in the order in which they were allocated. Lifetimes are cut off
// at the window's edges: a block from before it begins at 0, one that outlives it ends at last - first, one that does
// both spans the window. Events of other devices than `device` and blocks of zero bytes are left out, but take up time.
WindowProblem ProblemOfWindow(std::span<const TraceEvent> events, Window window, std::uint8_t device = 0);

// The window of training step `step`, or of the last whole one: the last step that is no shorter than half of the
// longest of the steps before it (a run may be cut off in its last step). A trace without steps is one window as a
// whole. nullopt: no event is of that step.
std::optional<Window> WindowOfStep(const Trace& trace, std::optional<std::uint32_t> step = std::nullopt);

}  // namespace stalloc::planner
