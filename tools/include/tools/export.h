// A trace in the formats of other tools, as the bytes of a file. Any thread; may allocate.
#pragma once

#include <string>

#include "planner/trace_problem.h"

namespace stalloc::tools {

// op,id,bytes,stream,step: what planner/csv.h reads again.
std::string ExportCsv(const planner::Trace& trace);

// {"format": "stalloc-events", "version": 1, "events": [...], "call_sites": {number: [frames]}}
std::string ExportJson(const planner::Trace& trace);

// Trace events in JSON, for ui.perfetto.dev and chrome://tracing: live bytes of each device as a counter, and each
// block as a span.
std::string ExportPerfetto(const planner::Trace& trace);

// A pickle as torch.cuda.memory._dump_snapshot writes it, for PyTorch's memory viewer. A trace has no addresses: blocks
// get those that best fit gives them, in one segment a device.
std::string ExportTorchSnapshot(const planner::Trace& trace);

}  // namespace stalloc::tools
