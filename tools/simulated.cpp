#include "tools/simulated.h"

#include <cstdlib>
#include <system_error>

#include "simcuda/device.h"
#include "tools/environment.h"
#include "tools/failure.h"
#include "tools/options.h"
#include "tools/preload.h"

namespace stalloc::tools {
namespace {

namespace fs = std::filesystem;

// What a program may load of CUDA itself. Those of a build that has not all of them are left out.
constexpr const char* kDriver = "libcuda.so.1";
constexpr const char* kLibraries[] = {"libcudart.so.13", "libcudart.so.12", kDriver, "libnvidia-ml.so.1"};

bool IsFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// `folders` that do not hold `file` are passed over; the first is named if none does.
fs::path FolderWith(const std::vector<fs::path>& folders, const char* file) {
  for (const fs::path& folder : folders) {
    if (IsFile(folder / file)) return folder;
  }
  throw Failure(ExitCode::kInternal, (folders.front() / file).string() +
                                         ": not found; the simulated device is a part of a whole build or "
                                         "installation (cmake --build, cmake --install)");
}

void Prepend(std::vector<std::string>* environment, const char* name, const fs::path& folder) {
  const std::string before = VariableIn(*environment, name);
  SetVariable(environment, name, folder.string() + (before.empty() ? "" : ":" + before));
}

}  // namespace

SimulatedParts FindSimulatedParts() {
  std::vector<fs::path> library_folders;
  std::vector<fs::path> python_folders;
  const fs::path prefix = CommandPrefix();
  for (const char* folder : {STALLOC_INSTALL_LIBRARIES, "lib"}) {
    library_folders.push_back(prefix / folder / "stalloc" / "simulated");
    python_folders.push_back(prefix / folder / "stalloc" / "python" / "simulated");
  }
  library_folders.push_back(prefix / "lib" / "simcuda");                     // a build tree
  python_folders.push_back(fs::path(STALLOC_PYTHON_SOURCES) / "simulated");  // a build tree's sources
  SimulatedParts parts;
  parts.library_folder = FolderWith(library_folders, kDriver);
  parts.python_folder = FolderWith(python_folders, "sitecustomize.py");
  for (const char* name : kLibraries) {
    if (IsFile(parts.library_folder / name)) parts.libraries.push_back(parts.library_folder / name);
  }
  return parts;
}

std::vector<CLI::Option*> AddSimulatedOptions(CLI::App& verb, SimulatedMachine& machine) {
  return {
      verb.add_option("--device", machine.device, "The card that is simulated: h100, a100, rtx4090, ...")
          ->type_name("NAME"),
      AddSizeOption(verb, "--memory", machine.memory_bytes, "The memory of each device (default: the card's)"),
      verb.add_option("--devices", machine.devices, "How many devices the machine has (default 1)")
          ->check(CLI::Range(1, 32).description(""))
          ->type_name("N"),
      verb.add_option("--world-size", machine.world_size,
                      "Run one rank of a job of N, alone: the others' messages are taken for granted")
          ->check(CLI::Range(1u, 1u << 20).description(""))
          ->type_name("N"),
      verb.add_option("--rank", machine.rank, "Which rank of --world-size (default 0)")
          ->check(WholeNumber())
          ->type_name("R"),
      verb.add_option("--steps", machine.steps, "End the program after N training steps; 0: when it ends by itself")
          ->check(WholeNumber())
          ->type_name("N"),
  };
}

std::uint64_t CheckSimulatedMachine(const SimulatedMachine& machine) {
  if (machine.rank != 0 && machine.rank >= machine.world_size)
    throw Failure(ExitCode::kUsage,
                  "--rank=" + std::to_string(machine.rank) + " must be below --world-size" +
                      (machine.world_size == 0 ? ", which is not given" : "=" + std::to_string(machine.world_size)));
  // As the simulation of a child will read it. The command has one thread.
  if (!machine.device.empty()) ::setenv("SIMCUDA_DEVICE", machine.device.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  std::string error;
  const simcuda::Config config = simcuda::ConfigFromEnvironment(&error);
  if (!error.empty()) throw Failure(ExitCode::kUsage, error);
  if (machine.memory_bytes != 0) return machine.memory_bytes;
  const bool said = !Variable("SIMCUDA_DEVICE").empty() || !Variable("SIMCUDA_MEMORY").empty();
  return said ? config.memory_bytes : 0;
}

void SimulateIn(const SimulatedParts& parts, const SimulatedMachine& machine, std::vector<std::string>* environment) {
  std::string preloads = VariableIn(*environment, "LD_PRELOAD");
  for (auto library = parts.libraries.rbegin(); library != parts.libraries.rend(); ++library)
    preloads = PrependPreload(*library, preloads);
  SetVariable(environment, "LD_PRELOAD", preloads);
  Prepend(environment, "LD_LIBRARY_PATH", parts.library_folder);
  Prepend(environment, "PYTHONPATH", parts.python_folder);
  SetVariable(environment, "STALLOC_SIMULATED", "1");
  SetVariable(environment, "SIMCUDA_DEVICES", std::to_string(machine.devices));
  if (!machine.device.empty()) SetVariable(environment, "SIMCUDA_DEVICE", machine.device);
  if (machine.memory_bytes != 0) SetVariable(environment, "SIMCUDA_MEMORY", std::to_string(machine.memory_bytes));
  SetVariable(environment, "STALLOC_SIMULATED_WORLD_SIZE", std::to_string(machine.world_size));
  SetVariable(environment, "STALLOC_SIMULATED_RANK", std::to_string(machine.rank));
  SetVariable(environment, "STALLOC_SIMULATED_STEPS", std::to_string(machine.steps));
}

}  // namespace stalloc::tools
