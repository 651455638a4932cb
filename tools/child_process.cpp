#include "tools/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <system_error>

#include "tools/failure.h"
#include "tools/temporary_folder.h"

namespace stalloc::tools {
namespace {

constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;
constexpr int kForwarded[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH, SIGALRM};

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// What RunChild waits for. Blocked, and taken one at a time by sigwaitinfo, so that no handler is needed.
sigset_t WaitedSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int signal : kForwarded) sigaddset(&set, signal);
  return set;
}

ChildEnd EndFromStatus(int status) {
  if (WIFSIGNALED(status)) return {128 + WTERMSIG(status), WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

ChildEnd WaitFor(pid_t child, const sigset_t& waited) {
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return EndFromStatus(status);
    if (ended < 0 && errno != EINTR) {
      throw Failure(ExitCode::kInternal, "cannot wait for the command: " + std::generic_category().message(errno));
    }
    siginfo_t info{};
    const int signal = ::sigwaitinfo(&waited, &info);
    if (signal <= 0 || signal == SIGCHLD) continue;
    // The terminal signals the whole foreground group: the child has had its own already.
    if (info.si_code != SI_KERNEL) ::kill(child, signal);
  }
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

ChildEnd RunChild(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  const sigset_t waited = WaitedSignals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &waited, &before);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &before);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, command.front().c_str(), nullptr, &attributes, Pointers(command).data(),
                                   Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    const std::string reason = command.front() + ": " + std::generic_category().message(error);
    if (error != ENOENT && error != EACCES && error != ENOEXEC) {
      throw Failure(ExitCode::kInternal, "cannot run " + reason);
    }
    std::fprintf(stderr, "stalloc: error: cannot run %s\n", reason.c_str());
    return {error == ENOENT ? kNotFound : kNotExecutable, 0};
  }
  const ChildEnd end = WaitFor(child, waited);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return end;
}

int EndAs(const ChildEnd& end) {
  if (end.signal == 0) return end.exit_code;
  // The child has dumped its core if it was to; a second one, of this process, would only hide it.
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(end.signal, SIG_DFL);
  ::raise(end.signal);
  return end.exit_code;  // the signal did not end this process
}

ChildOutput CaptureChild(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  const TemporaryFolder folder;  // files, not pipes: neither side can block the other
  const std::string output = folder.Path("out");
  const std::string errors = folder.Path("err");
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, command.front().c_str(), &files, nullptr, Pointers(command).data(),
                                   Pointers(environment).data());
  posix_spawn_file_actions_destroy(&files);
  ChildOutput result;
  if (error != 0) return result;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.started = true;
  result.exit_code = EndFromStatus(status).exit_code;
  result.output = ReadAll(output);
  result.errors = ReadAll(errors);
  return result;
}

}  // namespace stalloc::tools
