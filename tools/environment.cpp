#include "tools/environment.h"

#include <unistd.h>

#include <cstdlib>

namespace stalloc::tools {

std::vector<std::string> CurrentEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) environment.emplace_back(*entry);
  return environment;
}

void SetVariable(std::vector<std::string>* environment, std::string_view name, std::string_view value) {
  const std::string start = std::string(name) + "=";
  RemoveVariables(environment, start);
  environment->push_back(start + std::string(value));
}

void RemoveVariables(std::vector<std::string>* environment, std::string_view prefix) {
  std::erase_if(*environment, [&](const std::string& entry) { return entry.starts_with(prefix); });
}

std::string VariableIn(const std::vector<std::string>& environment, std::string_view name) {
  const std::string start = std::string(name) + "=";
  for (const std::string& entry : environment)
    if (entry.starts_with(start)) return entry.substr(start.size());
  return {};
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): the command has one thread when it asks
  return value == nullptr ? std::string() : value;
}

}  // namespace stalloc::tools
