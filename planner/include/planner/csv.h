// The text formats that traces and problems come in, plain or gzip. Target stalloc_planner_csv (needs zlib; never part
// of libstalloc.so). Any thread; may allocate. Every refusal names the file, the line and the reason.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/model.h"
#include "planner/result.h"
#include "planner/trace_problem.h"

namespace stalloc::planner {

enum class CsvKind { kEvents, kLifetimes };

// Which of the two formats the header line announces.
Result<CsvKind> DetectCsv(const std::string& path);

// `op,id,bytes,stream,step`, in any order of columns: op `a` allocates, `f` frees; id is any text; stream is a raw
// handle (it becomes an ordinal, first seen = 0); stream and step may be missing. Refused: an unknown op, a size that
// is zero, negative or not a 64-bit number, an id allocated while it lives, a free of an id that never lived or lives
// no more. An allocation's number (TraceEvent::block) counts the allocations of the file from 0.
Result<Trace> ReadEventCsv(const std::string& path);

struct LifetimeTable {
  Problem problem;               // on a line; one request for each row
  std::vector<std::string> ids;  // of the rows
};

// `id,lower,upper,size`, in any order of columns; lifetimes are half-open, [lower, upper). Refused: an id given twice,
// an end that is not after its begin, a size that is zero, negative or not a 64-bit number, sizes that add up to more
// than the planner can address (kMaxTotalBytes).
Result<LifetimeTable> ReadLifetimeCsv(const std::string& path);

// `id,lower,upper,size,offset`, MiniMalloc's output form. `ids` empty: rows are numbered from 0. The file is written
// whole or not at all. nullopt: done.
std::optional<FileError> WritePlacementCsv(const std::string& path, const Problem& problem,
                                           const std::vector<std::string>& ids, const Placement& placement,
                                           bool overwrite);

}  // namespace stalloc::planner
