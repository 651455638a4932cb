// The environment that a child process is given, as a list of "NAME=value".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stalloc::tools {

// This process's own.
std::vector<std::string> CurrentEnvironment();

// Sets `name`, once, whatever it was.
void SetVariable(std::vector<std::string>* environment, std::string_view name, std::string_view value);

// Removes every variable whose name begins with `prefix`.
void RemoveVariables(std::vector<std::string>* environment, std::string_view prefix);

// `name` as `environment` has it; empty if it has not.
std::string VariableIn(const std::vector<std::string>& environment, std::string_view name);

// This process's `name`; empty if it is not set.
std::string Variable(const char* name);

}  // namespace stalloc::tools
