// Names the program that this process runs, so that a kept plan is found again by the next run of the same program.
//
// Two runs are of the same program if they run the same executable (by build id) and, where that is a Python
// interpreter, the same script: its absolute path, the name behind -m, or the text behind -c. What the script contains
// and which arguments it is given do not count: a run name or a date among them would make every run a new program, and
// a plan that does not fit what a changed program does is dropped without harm.
//
// Any thread; allocates, reads /proc. Not for the serving path.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stalloc::runtime {

// Of this process; never 0.
std::uint64_t ProgramFingerprint();

// Of what this process is told to do, as far as its command line says: how large what it allocates will be. Counted are
// the arguments, but for those that name a file, and the contents of the script and of files of settings (YAML, JSON,
// TOML, INI) that are named there; and among how many processes the work is shared out. Never 0.
std::uint64_t ProgramConfiguration();

// The same, of these arguments.
std::uint64_t ConfigurationOf(std::span<const std::string> arguments);

// True if a program of this name or path is a Python interpreter.
bool IsPython(std::string_view program) noexcept;

// The command line; empty where /proc is not there.
std::vector<std::string> ArgumentsOfThisProcess();

// What `arguments` (the first is the program's name) make a Python interpreter run: "-m name", "-c text", the script as
// it is written there, or nothing if there is no script (standard input, an interactive session) or it is no Python.
std::string ScriptOf(std::span<const std::string> arguments);

}  // namespace stalloc::runtime
