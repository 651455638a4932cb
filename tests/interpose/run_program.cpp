#include "run_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace stalloc::interpose {
namespace {

std::string Slurp(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Environment Plain() {
  Environment environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const auto equals = text.find('=');
    // The tests say what the programs see of these.
    if (text.starts_with("STALLOC_") || text.starts_with("PYTORCH_") || text.starts_with("XLA_") ||
        text.starts_with("TF_") || text.starts_with("LD_")) {
      continue;
    }
    environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  environment["LD_LIBRARY_PATH"] = STALLOC_FAKE_DIRECTORY ":" STALLOC_FAKE_RUNTIME_DIRECTORY;
  return environment;
}

Environment Preloaded() {
  Environment environment = Plain();
  environment["LD_PRELOAD"] = STALLOC_PROBE;
  return environment;
}

Environment Simulated() {
  Environment environment = Plain();
  environment["LD_LIBRARY_PATH"] = STALLOC_SIMCUDA_DIRECTORY;
  environment["STALLOC_PLAN_CACHE"] = "off";
  return environment;
}

Environment Served() {
  Environment environment = Simulated();
  environment["LD_PRELOAD"] = STALLOC_LIBRARY;
  return environment;
}

std::string Program(const std::string& name) { return std::string(STALLOC_PROGRAMS_DIRECTORY) + "/" + name; }

Outcome RunProgram(const std::vector<std::string>& command, Environment environment) {
  std::string folder = std::filesystem::temp_directory_path() / "stalloc-interpose-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
  const std::filesystem::path directory = folder;
  environment["PROBE_LOG"] = directory / "log";
#ifdef STALLOC_SANITIZER_LIBRARY
  // First of all that is loaded; what it finds ends the program with an exit code. The programs' own leaks are theirs.
  std::string& preload = environment["LD_PRELOAD"];
  preload = STALLOC_SANITIZER_LIBRARY + (preload.empty() ? "" : ":" + preload);
  environment["ASAN_OPTIONS"] = "detect_leaks=0";
  environment["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1";
#endif

  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> argument_pointers, variable_pointers;
  for (const std::string& argument : command) argument_pointers.push_back(const_cast<char*>(argument.c_str()));
  for (std::string& variable : variables) variable_pointers.push_back(variable.data());
  argument_pointers.push_back(nullptr);
  variable_pointers.push_back(nullptr);

  const std::string output_path = directory / "output";
  const pid_t child = ::fork();
  if (child == 0) {
    const int output = ::open(output_path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    ::dup2(output, 1);
    ::dup2(output, 2);
    ::alarm(60);  // a program that loops fails
    ::execvpe(argument_pointers[0], argument_pointers.data(), variable_pointers.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);

  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.output = Slurp(output_path);
  std::istringstream log(Slurp(directory / "log"));
  std::string name;
  for (long count = 0; log >> name >> count;) outcome.counts[name] += count;
  std::filesystem::remove_all(directory);
  return outcome;
}

}  // namespace stalloc::interpose
