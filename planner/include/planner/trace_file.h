// A trace on disk: blocks of events, each whole in itself, so that a process that is killed loses at most the last one.
//
// trace_block.h describes the format. A writer is used by one thread at a time, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "planner/call_site_frames.h"
#include "planner/result.h"
#include "planner/trace_event.h"
#include "planner/trace_problem.h"

namespace stalloc::planner {

// First bytes of every block, and so of every trace file.
inline constexpr char kTraceBlockMagic[8] = {'s', 't', 'a', 'l', 'l', 'o', 'c', 'T'};

enum class TraceEncoding : std::uint32_t {
  kRaw = 0,   // columns as they are
  kZstd = 1,  // columns compressed, about 5 to 10 times smaller (names always are)
};

// Writes with plain POSIX calls; what Append has accepted survives the death of the process (not of the machine).
class TraceWriter {
 public:
  static constexpr std::size_t kMaxBlockEvents = 65536;

  // Creates the file, or empties it if it is a trace that nobody is writing; what is no trace is left as it is.
  static Result<std::unique_ptr<TraceWriter>> Create(const std::string& path,
                                                     TraceEncoding encoding = TraceEncoding::kZstd);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Writes the events as one block (more than kMaxBlockEvents: as several). After an error the file ends with the last
  // whole block, and every later call returns the error again. nullopt: done.
  std::optional<FileError> Append(std::span<const TraceEvent> events);

  // Writes the names as one block (more than that holds: as several); a tab or a line end in one becomes a space.
  std::optional<FileError> AppendNames(std::span<const CallSiteFrames> call_sites);

 private:
  struct State;
  explicit TraceWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Why TraceWriter could not, or should not, write at `path`: the file is not to be written, or its folder takes none,
// or what is there is no trace. A trace that is there is written in place, whatever its folder allows. nullopt: nothing
// is known to be in the way.
std::optional<FileError> FindTraceObstacle(const std::string& path);

enum class TraceTail : bool {
  kMustBeWhole,    // a truncated last block is an error
  kMayBeTruncated  // it is dropped
};

// The whole file. Corruption is an error with the byte where the block begins and the reason, whatever `tail` says.
// Trace::steps stays empty: a program's own trace knows no steps.
Result<Trace> ReadTraceFile(const std::string& path, TraceTail tail);

// Puts up to `size` bytes, the next ones, at `to` and says how many: 0 only at the end.
using ByteSource = std::function<Result<std::size_t>(void* to, std::size_t size)>;

// The same, out of what `source` yields; `path` and the bytes' places are for errors.
Result<Trace> ReadTrace(const std::string& path, const ByteSource& source, TraceTail tail);

}  // namespace stalloc::planner
