// The runs that `stalloc fit` makes, and what is concluded from them.
//
// First every allocator on devices with plenty of memory, which shows its need. Then, where a size is in question,
// those that held more than that once more on devices of that size: an allocator that gives its cache back and tries
// again may survive there. One more run, of stalloc, on a device slightly smaller than the live peak, runs out of
// memory where the peak is.
#include "tools/fit.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <system_error>
#include <thread>

#include "tools/environment.h"
#include "tools/failure.h"
#include "tools/preload.h"
#include "tools/temporary_folder.h"
#include "tools/text.h"

namespace stalloc::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPlentyBytes = std::uint64_t{1} << 40;
constexpr std::size_t kTailBytes = 4096;
constexpr int kTailLines = 15;
constexpr const char* kClearLine = "\r\033[K";

// One run to be made.
struct Request {
  const FitAllocator* allocator = nullptr;
  unsigned number = 1;
  std::uint64_t memory_bytes = 0;
  std::string name;     // of its folder
  fs::path plan_cache;  // stalloc: where plans are kept; empty: none
  std::string reason;   // for the progress line
};

std::string Tail(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const auto size = static_cast<std::size_t>(file.tellg());
  const std::size_t length = std::min(size, kTailBytes);
  std::string text(length, '\0');
  file.seekg(static_cast<std::streamoff>(size - length));
  file.read(text.data(), static_cast<std::streamsize>(length));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  std::size_t begin = text.size();
  for (int lines = 0; lines < kTailLines && begin != std::string::npos && begin > 0; ++lines)
    begin = text.rfind('\n', begin - 1);
  return begin == std::string::npos || begin == text.size() ? text : text.substr(begin == 0 ? 0 : begin + 1);
}

std::string Indented(const std::string& text) {
  std::string result = "\n    ";
  for (const char c : text) result += c == '\n' ? std::string("\n    ") : std::string(1, c);
  return result;
}

unsigned DefaultJobs() { return std::clamp(std::thread::hardware_concurrency() / 2, 1u, 4u); }

class Runner {
 public:
  Runner(const FitOptions& options, const std::vector<std::string>& command)
      : options_(options), command_(command), parts_(FindSimulatedParts()), library_(FindLibrary()) {
    if (options_.output.empty()) temporary_ = std::make_unique<TemporaryFolder>();
    folder_ = options_.output.empty() ? fs::path(temporary_->Path("")) : fs::absolute(options_.output);
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) throw Failure(ExitCode::kInternal, folder_.string() + ": " + error.message());
  }

  fs::path Folder(const std::string& name) const { return folder_ / name; }

  // Makes the runs, several at once, and returns them in the order of the requests. Stops early when `stop` says of one
  // that it makes the others pointless, or when a signal came; those that have not ended are missing then.
  std::vector<FitRun> Run(const std::vector<Request>& requests, bool (*stop)(const FitRun&)) {
    struct Running {
      std::size_t index = 0;
      std::chrono::steady_clock::time_point start;
    };
    Children children;
    std::map<pid_t, Running> running;
    std::vector<std::optional<FitRun>> runs(requests.size());
    const unsigned jobs = options_.jobs != 0 ? options_.jobs : DefaultJobs();
    bool stopping = false;
    std::size_t next = 0;
    while (!running.empty() || (!stopping && next < requests.size())) {
      while (!stopping && next < requests.size() && running.size() < jobs) {
        running[Start(requests[next], &children)] = {next, std::chrono::steady_clock::now()};
        ++next;
      }
      const Children::Ended ended = children.WaitForOne([&] {
        std::string names;
        for (const auto& [child, run] : running) names += (names.empty() ? "" : ", ") + requests[run.index].reason;
        Progress(names);
      });
      const Running which = running.at(ended.child);
      running.erase(ended.child);
      FitRun& run = runs[which.index].emplace(Finish(requests[which.index], ended.end));
      run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - which.start).count();
      ++made_;
      if (children.asked_to_end() != 0) signal_ = children.asked_to_end();
      if (!stopping && (signal_ != 0 || stop(run))) {
        stopping = true;
        children.Signal(SIGTERM);
      }
    }
    if (drawn_) std::fputs(kClearLine, stderr);
    drawn_ = false;
    std::vector<FitRun> result;
    for (std::optional<FitRun>& run : runs)
      if (run) result.push_back(std::move(*run));
    return result;
  }

  int signal() const { return signal_; }

 private:
  std::vector<std::string> Environment(const Request& request, const fs::path& folder) const {
    std::vector<std::string> environment = CurrentEnvironment();
    for (const char* name : {"PYTORCH_ALLOC_CONF=", "PYTORCH_CUDA_ALLOC_CONF=", "STALLOC_PLAN=", "STALLOC_TRACE="})
      RemoveVariables(&environment, name);
    SimulatedMachine machine = options_.machine;
    machine.memory_bytes = request.memory_bytes;
    SimulateIn(parts_, machine, &environment);
    SetVariable(&environment, "STALLOC_SIMULATED_REPORT", (folder / "torch-%p.json").string());
    SetVariable(&environment, "SIMCUDA_REPORT", (folder / "device-%p.json").string());
    if (!request.allocator->torch_conf.empty()) {
      // Older versions of PyTorch know the second name alone.
      for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"})
        SetVariable(&environment, name, request.allocator->torch_conf);
    }
    if (request.allocator->preload) {
      SetVariable(&environment, "LD_PRELOAD", PrependPreload(library_, VariableIn(environment, "LD_PRELOAD")));
      SetVariable(&environment, "STALLOC_STATS", (folder / "stats-%p.json").string());
      SetVariable(&environment, "STALLOC_PLAN_CACHE", request.plan_cache.string());
    }
    return environment;
  }

  pid_t Start(const Request& request, Children* children) {
    const fs::path folder = folder_ / request.name;
    std::error_code ignored;
    fs::remove_all(folder, ignored);  // of an earlier call with the same --output
    fs::create_directories(folder);
    const pid_t child = children->Start(command_, Environment(request, folder), (folder / "output").string());
    if (child > 0) return child;
    throw Failure(ExitCode::kBadInput,
                  "cannot run " + command_.front() + ": " + std::generic_category().message(-child));
  }

  FitRun Finish(const Request& request, const ChildEnd& end) const {
    FitRun run;
    run.allocator = request.allocator->name;
    run.number = request.number;
    run.memory_bytes = request.memory_bytes;
    run.end = end;
    run.reports = ReadFitReports(folder_ / request.name);
    run.output = Tail(folder_ / request.name / "output");
    if (options_.verbose)
      std::fprintf(stderr, "%s%s:%s\n", drawn_ ? kClearLine : "", request.reason.c_str(), Indented(run.output).c_str());
    return run;
  }

  void Progress(const std::string& names) {
    if (::isatty(STDERR_FILENO) != 1) return;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    std::fprintf(stderr, "%s%.0f s, %u runs made, now: %.50s", kClearLine, seconds, made_, names.c_str());
    std::fflush(stderr);
    drawn_ = true;
  }

  const FitOptions& options_;
  const std::vector<std::string>& command_;
  const SimulatedParts parts_;
  const fs::path library_;
  std::unique_ptr<TemporaryFolder> temporary_;
  fs::path folder_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  unsigned made_ = 0;
  bool drawn_ = false;
  int signal_ = 0;
};

bool FailedByItself(const FitRun& run) { return run.end.exit_code != 0 && !run.RanOutOfMemory(); }

[[noreturn]] void ThrowProgramFailed(const FitRun& run) {
  std::string message = "the command fails by itself on the simulated device, without stalloc, ";
  message += run.end.signal != 0 ? "by signal " + std::to_string(run.end.signal)
                                 : "with exit code " + std::to_string(run.end.exit_code);
  for (const std::string& sentence : run.reports.unsimulated) message += "; " + sentence;
  throw Failure(ExitCode::kBadInput, message + (run.output.empty() ? "; it printed nothing"
                                                                   : "; its output ends with:" + Indented(run.output)));
}

[[noreturn]] void ThrowUnusedDevice(const FitRun& run) {
  std::string message = "the command ended well but asked CUDA for no memory";
  if (run.reports.torch.find("+cpu") != std::string::npos)
    message += "; its PyTorch is built without CUDA (" + run.reports.torch + ")";
  throw Failure(ExitCode::kBadInput,
                message + (run.output.empty() ? "" : "; its output ends with:" + Indented(run.output)));
}

void CopyFolder(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  fs::remove_all(to, ignored);
  fs::copy(from, to, fs::copy_options::recursive, ignored);  // no plan was kept: the copy stays empty
}

bool Wanted(const FitOptions& options, const std::string& name) {
  return options.only.empty() || std::find(options.only.begin(), options.only.end(), name) != options.only.end();
}

std::string TitleOf(const std::string& name, unsigned number) {
  for (const FitAllocator& allocator : FitAllocators())
    if (allocator.name == name) return allocator.title + (number > 1 ? ", 2nd run" : "");
  return name;
}

bool Never(const FitRun&) { return false; }

}  // namespace

const std::vector<FitAllocator>& FitAllocators() {
  static const std::vector<FitAllocator> kAllocators = {
      {"default", "default", "", false},
      {"expandable", "expandable segments", "expandable_segments:True", false},
      {"async", "cudaMallocAsync", "backend:cudaMallocAsync", false},
      {"stalloc", "stalloc", "", true},
  };
  return kAllocators;
}

bool FitRun::RanOutOfMemory() const {
  if (reports.out_of_memory) return true;
  // A program that has no report of its own: it failed, and the device had refused it memory.
  return reports.torch.empty() && end.exit_code != 0 &&
         std::any_of(reports.uses.begin(), reports.uses.end(),
                     [](const DeviceUse& use) { return use.refused_requests != 0; });
}

std::optional<bool> FitRow::Fits(std::uint64_t memory_bytes) const {
  if (memory_bytes == 0) return std::nullopt;
  if (limited) return limited->Succeeded();
  return plenty.Succeeded() && plenty.Worst() != nullptr && plenty.Worst()->HeldBytes() <= memory_bytes;
}

std::string FitRow::Title() const { return TitleOf(plenty.allocator, plenty.number); }

std::optional<FitResult> Fit(const FitOptions& options, const std::vector<std::string>& command, int* signal) {
  Runner runner(options, command);
  FitResult result;
  result.command = command;
  result.machine = options.machine;
  result.memory_bytes = options.machine.memory_bytes;
  const std::uint64_t limit = result.memory_bytes;
  const std::uint64_t plenty = std::max(kPlentyBytes, 2 * limit);
  const auto request = [&](const FitAllocator& allocator, unsigned number, std::uint64_t memory_bytes,
                           const std::string& name, const fs::path& plan_cache, const std::string& reason) {
    if (allocator.preload) fs::create_directories(plan_cache);
    return Request{&allocator, number, memory_bytes, name, plan_cache, reason};
  };

  std::vector<Request> requests;
  const FitAllocator* stalloc = nullptr;
  for (const FitAllocator& allocator : FitAllocators()) {
    if (!Wanted(options, allocator.name)) continue;
    if (allocator.preload) stalloc = &allocator;
    requests.push_back(request(allocator, 1, plenty, allocator.name, runner.Folder("plans"), allocator.title));
  }
  // Whatever comes first shows whether the command works at all.
  const std::string first = requests.front().allocator->name;
  std::vector<FitRun> runs = runner.Run(requests, [](const FitRun& run) {
    return run.allocator == "default" && (FailedByItself(run) || run.Worst() == nullptr);
  });
  if ((*signal = runner.signal()) != 0) return std::nullopt;
  for (const FitRun& run : runs) {
    if (run.allocator != first) continue;
    if (FailedByItself(run)) ThrowProgramFailed(run);
    if (run.Worst() == nullptr) ThrowUnusedDevice(run);
  }
  const bool torch =
      std::any_of(runs.begin(), runs.end(), [](const FitRun& run) { return !run.reports.torch.empty(); });
  for (FitRun& run : runs) {
    if (!torch && (run.allocator == "expandable" || run.allocator == "async")) continue;  // the same as default
    result.rows.push_back({std::move(run), std::nullopt});
  }
  if (!torch) {
    // The program asks for the same under any allocator, and stalloc has counted it.
    const FitRow& last = result.rows.back();
    if (last.plenty.allocator == "stalloc" && last.plenty.Worst() != nullptr)
      for (FitRow& row : result.rows)
        for (DeviceUse& use : row.plenty.reports.uses)
          if (!use.peak_live_bytes) use.peak_live_bytes = last.plenty.Worst()->peak_live_bytes;
    result.notes.emplace_back("The program does not use PyTorch: what is live was counted by stalloc.");
  }

  // The second run, and those of what needs more than the size in question.
  requests.clear();
  std::vector<std::size_t> rows;  // of the requests; result.rows.size() and beyond: no row yet
  constexpr std::size_t kSecondRun = SIZE_MAX;
  constexpr std::size_t kPeak = SIZE_MAX - 1;
  const bool again = stalloc != nullptr && !result.rows.empty() && result.rows.back().plenty.allocator == "stalloc" &&
                     result.rows.back().plenty.Succeeded() && result.rows.back().plenty.Worst() != nullptr;
  if (again) {
    CopyFolder(runner.Folder("plans"), runner.Folder("plans-kept"));
    requests.push_back(request(*stalloc, 2, plenty, "stalloc-2", runner.Folder("plans"), "stalloc with its plan"));
    rows.push_back(kSecondRun);
    const std::uint64_t live = result.rows.back().plenty.Worst()->peak_live_bytes.value_or(0);
    if (torch && live > 0 && options.only.empty()) {
      requests.push_back(
          request(*stalloc, 1, live - live / 100, "peak", runner.Folder("plans-peak"), "to where the peak is"));
      rows.push_back(kPeak);
    }
  }
  const auto add_limited = [&](std::size_t row, const char* plan_cache) {
    const FitRun& run = result.rows[row].plenty;
    if (limit == 0 || run.Worst() == nullptr || run.Worst()->HeldBytes() <= limit || FailedByItself(run)) return;
    for (const FitAllocator& allocator : FitAllocators()) {
      if (allocator.name != run.allocator) continue;
      requests.push_back(request(allocator, run.number, limit,
                                 run.allocator + (run.number > 1 ? "-2" : "") + "-limited", runner.Folder(plan_cache),
                                 allocator.title + " in " + HumanBytes(limit)));
      rows.push_back(row);
    }
  };
  const auto make = [&] {
    runs = runner.Run(requests, Never);
    if ((*signal = runner.signal()) != 0) return false;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (rows[i] == kSecondRun) {
        result.rows.push_back({std::move(runs[i]), std::nullopt});
      } else if (rows[i] == kPeak) {
        result.peak = runs[i].reports.out_of_memory;
      } else {
        result.rows[rows[i]].limited = std::move(runs[i]);
      }
    }
    requests.clear();
    rows.clear();
    return true;
  };
  for (std::size_t row = 0; row < result.rows.size(); ++row) add_limited(row, "plans-limited");
  if (!make()) return std::nullopt;
  if (again) {
    add_limited(result.rows.size() - 1, "plans-kept");
    if (!make()) return std::nullopt;
  }
  return result;
}

}  // namespace stalloc::tools
