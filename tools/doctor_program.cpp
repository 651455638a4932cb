// `stalloc doctor`: settings, frameworks, and the command that is to be run.
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "runtime/base/settings.h"
#include "tools/child_process.h"
#include "tools/doctor.h"
#include "tools/environment.h"
#include "tools/preload.h"
#include "tools/text.h"

namespace stalloc::tools {
namespace {

namespace fs = std::filesystem;
using Level = Finding::Level;

// Frameworks that are asked for, by the names of their packages.
constexpr const char* kFrameworks[] = {"torch", "jax", "tensorflow", "cupy", "numba"};
constexpr const char* kTorchBackend = "backend of torch";
constexpr const char* kServedBackend = "cudaMallocAsync";

// Prints {"package": "version"} for those that are installed. PyTorch is loaded, as the program would load it, and says
// itself which allocator it has chosen; the others are not imported.
std::string VersionScript() {
  std::string script = "import importlib.metadata as m, json\nv = {}\nfor n in (";
  for (const char* framework : kFrameworks) script.append("'").append(framework).append("',");
  return script
      .append(
          "):\n"
          "    for d in (n, n + '-cuda13x', n + '-cuda12x'):\n"
          "        try: v.setdefault(n, m.version(d))\n"
          "        except m.PackageNotFoundError: pass\n"
          "try:\n"
          "    import torch\n"
          "    v['")
      .append(kTorchBackend)
      .append(
          "'] = torch.cuda.get_allocator_backend()\n"
          "except Exception: pass\n"
          "print(json.dumps(v))\n");
}

Finding ExamineFramework(const std::string& framework, const nlohmann::json& found) {
  const std::string version = found.at(framework);
  if (framework != "torch" || !found.contains(kTorchBackend)) return {Level::kOk, framework, version, ""};
  const std::string backend = found.at(kTorchBackend);
  if (backend == kServedBackend) return {Level::kOk, framework, version + ", single tensors are served", ""};
  return {Level::kProblem, framework, Format("%s keeps its %s allocator", version.c_str(), backend.c_str()),
          "take backend:native out of PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF, and STALLOC_FRAMEWORKS=0 or "
          "STALLOC_IPC=on out of the environment, as far as they are there"};
}

// Whether the executable's own bytes name CUDA's driver, as those do that load it or are linked to it or to a runtime.
bool NamesCuda(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return bytes.find("libcuda") != std::string::npos;
}

fs::path FindOnPath(const std::string& command) {
  if (command.find('/') != std::string::npos) return command;
  std::istringstream folders(Variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    fs::path candidate = fs::path(folder.empty() ? "." : folder) / command;
    if (::access(candidate.c_str(), X_OK) == 0 && !fs::is_directory(candidate)) return candidate;
  }
  return {};
}

struct Refusal {
  std::string why;
  std::string next;
};

// Why the dynamic linker would not preload anything into the executable; nullopt if it would.
std::optional<Refusal> WhyNotPreloadable(const fs::path& path, std::ifstream& file) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & (S_ISUID | S_ISGID)) != 0) {
    return Refusal{"runs with another user's rights: preloading is refused",
                   "name the program that it starts, or set LD_PRELOAD behind it (sudo env LD_PRELOAD=... CMD)"};
  }
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!file || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) {
    return Refusal{"is no 64-bit program", "name a program or a script that begins with #!, as in -- python train.py"};
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + std::uint64_t{i} * header.e_phentsize));
    file.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (file && segment.p_type == PT_INTERP) return std::nullopt;
  }
  return Refusal{"is statically linked: nothing can be preloaded into it",
                 "link it dynamically, or name the dynamically linked program that it starts"};
}

// `python`: a script that stands for an interpreter was met on the way.
Findings ExamineExecutable(const fs::path& path, int scripts_left, bool python = false) {
  python = python || path.filename().string().starts_with("python");
  std::ifstream file(path, std::ios::binary);
  char start[2] = {};
  file.read(start, sizeof start);
  if (!file) {
    return {{Level::kProblem, "command", path.string() + " cannot be read",
             "see whether it is there and its rights allow reading (ls -l)"}};
  }
  if (std::memcmp(start, "#!", 2) == 0 && scripts_left > 0) {
    std::string line, interpreter, argument;
    std::getline(file, line);
    std::istringstream(line) >> interpreter >> argument;
    if (fs::path(interpreter).filename() == "env" && !argument.empty()) interpreter = FindOnPath(argument);
    return ExamineExecutable(interpreter, scripts_left - 1, python);
  }
  file.seekg(0);
  if (const auto refusal = WhyNotPreloadable(path, file))
    return {{Level::kProblem, "command", path.string() + " " + refusal->why, refusal->next}};
  if (python || NamesCuda(path)) return {{Level::kOk, "command", path.string() + " can be preloaded into", ""}};
  return {{Level::kNote, "command",
           path.string() + " can be preloaded into; it does not name CUDA, so there may be nothing to serve",
           "nothing need be done if it starts a program that uses CUDA, or loads a library that does"}};
}

}  // namespace

Findings ExamineSettings() {
  Findings findings;
  const std::vector<std::string> environment = CurrentEnvironment();
  std::vector<const char*> block;
  block.reserve(environment.size() + 1);
  for (const std::string& entry : environment) {
    if (entry.starts_with("STALLOC_")) {
      findings.push_back(
          {Level::kNote, "setting", entry, "unset " + entry.substr(0, entry.find('=')) + " if the default is to hold"});
    }
    block.push_back(entry.c_str());
  }
  block.push_back(nullptr);
  std::vector<std::string> warnings;
  const runtime::Settings settings = runtime::LoadSettings(block.data(), &warnings);
  for (const std::string& warning : warnings) {
    findings.push_back({Level::kNote, "setting", warning, "correct it; stalloc run --help lists the settings"});
  }
  if (settings.disable) {
    findings.push_back({Level::kProblem, "setting", "STALLOC_DISABLE turns everything off", "unset STALLOC_DISABLE"});
  }
  if (findings.empty()) findings.push_back({Level::kOk, "settings", "all have their defaults", ""});

  constexpr struct {
    const char* name;
    const char* next;
  } kShared[] = {
      {"CUDA_VISIBLE_DEVICES", "see that the devices above are the ones that you mean"},
      {"CUDA_INJECTION64_PATH", "a profiler shares the process; unset it if the figures are to be the program's alone"},
      {"CUDA_MPS_PIPE_DIRECTORY", "processes share the GPU; STALLOC_MEMORY_LIMIT bounds what this one holds"},
      {"LD_PRELOAD", "stalloc run keeps it, behind libstalloc.so; unset it if it is not meant for this command"},
  };
  for (const auto& shared : kShared) {
    const std::string value = Variable(shared.name);
    if (value.empty()) continue;
    findings.push_back({Level::kNote, "environment", std::string(shared.name) + "=" + value, shared.next});
  }
  return findings;
}

Findings ExamineFrameworks(const std::string& python, const fs::path& library) {
  std::vector<std::string> environment = CurrentEnvironment();
  SetVariable(&environment, "LD_PRELOAD", PrependPreload(library, Variable("LD_PRELOAD")));
  const ChildOutput child = CaptureChild({python, "-c", VersionScript()}, environment);
  if (!child.started || child.exit_code != 0) {
    return {{Level::kNote, "frameworks", python + " does not run",
             "nothing need be done for a program that is not Python's; otherwise name its python: -- PYTHON train.py"}};
  }
  const nlohmann::json found = nlohmann::json::parse(child.output, nullptr, false);
  Findings findings;
  for (const char* framework : kFrameworks)
    if (found.is_object() && found.contains(framework)) findings.push_back(ExamineFramework(framework, found));
  if (findings.empty()) {
    findings.push_back({Level::kNote, "frameworks", "none in " + python,
                        "if the program needs one, activate its environment, or name its python: -- PYTHON train.py"});
  }
  return findings;
}

Findings ExamineCommand(const std::string& command) {
  const fs::path path = FindOnPath(command);
  if (path.empty()) {
    return {{Level::kProblem, "command", command + " is not on the search path",
             "write its path, or activate the environment that has it"}};
  }
  constexpr int kScriptsOfScripts = 4;
  return ExamineExecutable(path, kScriptsOfScripts);
}

}  // namespace stalloc::tools
