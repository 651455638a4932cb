#include "command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace stalloc::tools {
namespace {

namespace fs = std::filesystem;

fs::path NewFolder() {
  std::string pattern = (fs::temp_directory_path() / "stalloc_test.XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
  return pattern;
}

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Ended RunWords(const std::vector<std::string>& words, const std::vector<std::string>& environment) {
  const fs::path folder = NewFolder();
  std::vector<std::string> variables = environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::string(*entry).find('=') + 1);
    bool replaced = false;
    for (const std::string& variable : environment) replaced = replaced || variable.starts_with(name);
    if (!replaced) variables.emplace_back(*entry);
  }
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, (folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, (folder / "err").c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, words.front().c_str(), &files, nullptr, Pointers(words).data(),
                                   Pointers(variables).data());
  posix_spawn_file_actions_destroy(&files);
  Ended ended;
  if (error != 0) {
    ended.exit_code = -1;
    ended.errors = "cannot start " + words.front();
  } else {
    int status = 0;
    ::waitpid(child, &status, 0);
    ended.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    ended.output = ReadFile(folder / "out");
    ended.errors = ReadFile(folder / "err");
  }
  fs::remove_all(folder);
  return ended;
}

Ended RunStalloc(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
  arguments.insert(arguments.begin(), STALLOC_COMMAND);
  return RunWords(arguments, environment);
}

CommandTest::CommandTest() : folder_(NewFolder()) {}
CommandTest::~CommandTest() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string CommandTest::Write(const std::string& name, const std::string& content) const {
  std::ofstream(Path(name), std::ios::binary) << content;
  return Path(name);
}

std::string CommandTest::Read(const std::string& path) { return ReadFile(path); }

std::string SmallLifetimes() {
  return "id,lower,upper,size\n"
         "a,0,4,10\n"
         "b,0,2,20\n"
         "c,2,6,30\n"
         "d,4,8,10\n"
         "e,6,8,25\n"
         "f,1,2,10\n";
}

std::string SmallTraining(int steps, int layers) {
  constexpr int kMiB = 1 << 20;
  std::string csv = "op,id,bytes,stream,step\n";
  int next_id = 0;
  const auto allocate = [&](int bytes, int step) {
    csv += "a," + std::to_string(next_id) + "," + std::to_string(bytes) + ",0," + std::to_string(step) + "\n";
    return std::pair(next_id++, bytes);
  };
  const auto release = [&](std::pair<int, int> block, int step) {
    csv +=
        "f," + std::to_string(block.first) + "," + std::to_string(block.second) + ",0," + std::to_string(step) + "\n";
  };
  for (int step = 1; step <= steps; ++step) {
    std::vector<std::pair<int, int>> activations;
    for (int layer = 0; layer < layers; ++layer) {
      const auto workspace = allocate((3 + layer % 3) * kMiB + 1000, step);
      activations.push_back(allocate((4 + layer % 2) * kMiB, step));
      release(workspace, step);
    }
    while (!activations.empty()) {
      const auto gradient = allocate(6 * kMiB, step);
      release(activations.back(), step);
      activations.pop_back();
      release(gradient, step);
    }
  }
  return csv;
}

}  // namespace stalloc::tools
