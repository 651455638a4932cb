// How a verb ends: the exit codes of the `stalloc` command, and the exception that carries one to main.
#pragma once

#include <stdexcept>
#include <string>

namespace stalloc::tools {

enum class ExitCode : int {
  kOk = 0,
  kInternal = 1,    // an internal error, or a file that cannot be read or written
  kUsage = 2,       // options that make no sense
  kBadInput = 3,    // a file that is truncated, foreign or hostile
  kInfeasible = 4,  // the requests do not fit the capacity
};

// Ends a verb. `what()` is one line for a person: what was refused, where, and why.
class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace stalloc::tools
