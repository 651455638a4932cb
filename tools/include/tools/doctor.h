// What `stalloc doctor` looks at: one function a subject, each a list of findings.
//
// Whatever touches CUDA, Python or the library runs in a child process, so that nothing it does can disturb the rest.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace stalloc::tools {

struct Finding {
  enum class Level {
    kOk,
    kNote,     // worth knowing, hinders nothing
    kProblem,  // requests would not be served, or not those of tensors
  };
  Level level = Level::kOk;
  std::string subject;
  std::string text;
  std::string next;  // what to do about it, or that nothing need be done; empty where all is well
};

using Findings = std::vector<Finding>;

// The library loads, and is silent, in a program that has nothing to do with CUDA.
Findings ExamineLibrary(const std::filesystem::path& library);

// The driver and its devices, as they are without the library.
Findings ExamineDriver();

// One allocation by each route that a program can take to CUDA, with the library preloaded: was it served?
Findings ExamineRoutes(const std::filesystem::path& library);

// STALLOC_* in the environment; profilers and the like that share the process.
Findings ExamineSettings();

// Frameworks that `python` has, and the variables that decide whether their requests reach CUDA.
Findings ExamineFrameworks(const std::string& python, const std::filesystem::path& library);

// Can this command be preloaded into at all?
Findings ExamineCommand(const std::string& command);

// --- In the child ---
// The routes by name; "describe" prints what ExamineDriver shows instead of allocating.
inline constexpr const char* kDescribeDriver = "describe";

// Runs one probe in this process and prints its result as JSON. Returns the exit code: 0, or 1 with a line on stderr.
int RunProbe(const std::string& route);

}  // namespace stalloc::tools
