// What `stalloc fit` learns of a command: one run of it for each allocator, on the simulated device.
//
// A run's figures come from two reports that its processes leave behind: PyTorch's own counters, written by what is
// simulated in Python, and the use of the device's memory, written by the simulated driver, which knows no framework.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/child_process.h"
#include "tools/simulated.h"

namespace stalloc::tools {

// One allocator to try, by its name on the command line: "default", "expandable", "async", "stalloc".
struct FitAllocator {
  std::string name;
  std::string title;       // for people
  std::string torch_conf;  // PYTORCH_ALLOC_CONF; empty: not set
  bool preload = false;    // of libstalloc.so
};
const std::vector<FitAllocator>& FitAllocators();

// One device as one process used it.
struct DeviceUse {
  int process = 0;
  int rank = 0;
  int device = 0;
  std::optional<std::uint64_t> peak_live_bytes;      // as PyTorch counts, or, without PyTorch, as stalloc does
  std::optional<std::uint64_t> peak_reserved_bytes;  // likewise
  std::uint64_t peak_device_bytes = 0;               // physical memory in use, seen from outside
  std::uint64_t retries = 0;                         // PyTorch: requests that were met only after giving back its cache
  std::uint64_t refused_requests = 0;                // by the device

  std::uint64_t HeldBytes() const;  // at the peak: the larger of the two views
};

// The out-of-memory error that ended the program.
struct OutOfMemory {
  int rank = 0;
  std::uint64_t step = 0;  // 1 is the first
  std::string file;        // of the innermost frame that is the program's own; empty: unknown
  int line = 0;
  std::string function;
  std::string message;  // PyTorch's
};

// What the reports of one run's processes say.
struct FitReports {
  std::vector<DeviceUse> uses;  // the one that holds most first
  std::optional<OutOfMemory> out_of_memory;
  std::string torch;  // its version; empty: no process has imported it
  std::string backend;
  std::uint64_t steps = 0;  // of the process that made most
  std::set<std::string> choices;
  std::set<std::string> unsimulated;
};

// Reads the reports that lie in `folder`. One that is cut off (its process was killed) is passed over.
FitReports ReadFitReports(const std::filesystem::path& folder);

struct FitRun {
  std::string allocator;
  unsigned number = 1;             // stalloc: 2 started with the plan that 1 had made
  std::uint64_t memory_bytes = 0;  // of each device
  ChildEnd end;
  double seconds = 0;
  FitReports reports;
  std::string output;  // what the program printed, its end

  bool Succeeded() const { return end.exit_code == 0 && !reports.out_of_memory; }
  bool RanOutOfMemory() const;
  const DeviceUse* Worst() const { return reports.uses.empty() ? nullptr : &reports.uses.front(); }
};

// One line of the table.
struct FitRow {
  FitRun plenty;                  // on devices with more memory than it asks for
  std::optional<FitRun> limited;  // on devices of the size in question, where `plenty` held more than that
  // Nothing where no size is in question.
  std::optional<bool> Fits(std::uint64_t memory_bytes) const;
  std::string Title() const;
};

struct FitResult {
  std::vector<std::string> command;
  SimulatedMachine machine;
  std::uint64_t memory_bytes = 0;  // 0: no size is in question
  std::vector<FitRow> rows;
  std::optional<OutOfMemory> peak;  // where live memory comes to its peak
  std::vector<std::string> notes;   // sentences
};

struct FitOptions {
  SimulatedMachine machine;
  std::vector<std::string> only;  // allocators; empty: all
  unsigned jobs = 0;              // runs at once; 0: by the number of processors
  std::filesystem::path output;   // what the runs print and report is kept here; empty: nowhere
  bool verbose = false;
};

// Runs the command as often as it takes. Throws Failure: kBadInput if the command cannot be judged (it fails by itself,
// it does not use CUDA), with the end of what it printed. Returns nothing if a signal asked this process to end, which
// is left in *signal.
std::optional<FitResult> Fit(const FitOptions& options, const std::vector<std::string>& command, int* signal);

// For people, and for programs: the same figures.
void PrintFitText(const FitResult& result);
nlohmann::ordered_json FitJson(const FitResult& result);

}  // namespace stalloc::tools
