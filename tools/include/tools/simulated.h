// The simulated CUDA device, for programs that know nothing of it: where its libraries lie, and the environment that
// gives them to one command and to its children. Nothing else on the machine sees them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace stalloc::tools {

// Where the parts of the simulation lie.
struct SimulatedParts {
  std::vector<std::filesystem::path> libraries;  // to preload, in this order
  std::filesystem::path library_folder;          // what is dlopened by name is found here
  std::filesystem::path python_folder;           // goes in front of PYTHONPATH
};

// Beside this command: in a build tree, or where `cmake --install` puts them. Throws Failure(kInternal), with the path
// that is missing.
SimulatedParts FindSimulatedParts();

// What the options of `run --simulated` and `fit` have in common.
struct SimulatedMachine {
  std::string device;              // the card's name; empty: the simulation's own
  std::uint64_t memory_bytes = 0;  // of each device; 0: the card's
  std::uint32_t devices = 1;       // in this machine
  std::uint32_t world_size = 0;    // 0: the program's own
  std::uint32_t rank = 0;          // of the one process that runs, where world_size is set
  std::uint32_t steps = 0;         // after which the program is ended; 0: never
};

// Adds --device, --memory, --devices, --world-size, --rank and --steps to `verb`; returns them.
std::vector<CLI::Option*> AddSimulatedOptions(CLI::App& verb, SimulatedMachine& machine);

// Throws Failure(kUsage) for a card that is not known, and for what contradicts itself: a rank outside the world.
// Returns how much memory each device has; 0 if neither an option nor SIMCUDA_DEVICE or SIMCUDA_MEMORY says it.
std::uint64_t CheckSimulatedMachine(const SimulatedMachine& machine);

// Gives `environment` the simulated libraries. LD_PRELOAD's own entries stay, behind them; a library that is to come
// before them (libstalloc.so) is put in front afterwards.
void SimulateIn(const SimulatedParts& parts, const SimulatedMachine& machine, std::vector<std::string>* environment);

}  // namespace stalloc::tools
