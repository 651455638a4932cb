// Events <-> columns, names <-> lines: the payload of a trace block. Private to planner/; thread-safe, no state.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "planner/call_site_frames.h"
#include "planner/trace_event.h"

namespace stalloc::planner {

// Bytes of one event over all columns: as in memory.
inline constexpr std::size_t kEventBytes = sizeof(TraceEvent);

// `columns` has events.size() * kEventBytes bytes.
void EventsToColumns(std::span<const TraceEvent> events, std::byte* columns);

// The reverse; `events` says how many. Returns the index of the first event that cannot be one, or events.size().
std::size_t ColumnsToEvents(const std::byte* columns, std::span<TraceEvent> events);

// With its line end.
std::string NamesToLine(const CallSiteFrames& call_site);

// The reverse, of one line without its end; nullopt if it is none.
std::optional<CallSiteFrames> LineToNames(std::string_view line);

}  // namespace stalloc::planner
