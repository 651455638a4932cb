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

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Children::Children() : waited_(WaitedSignals()) { ::sigprocmask(SIG_BLOCK, &waited_, &before_); }

Children::~Children() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

pid_t Children::Start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                      const std::string& output) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &before_);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (!output.empty()) {
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  }
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, command.front().c_str(), &files, &attributes, Pointers(command).data(),
                                   Pointers(environment).data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error == ENOENT || error == EACCES || error == ENOEXEC) return -error;
  if (error != 0) {
    throw Failure(ExitCode::kInternal, "cannot run " + command.front() + ": " + std::generic_category().message(error));
  }
  running_.push_back(child);
  return child;
}

Children::Ended Children::WaitForOne(const std::function<void()>& tick) {
  constexpr timespec kTick{0, 250'000'000};
  for (;;) {
    for (auto child = running_.begin(); child != running_.end(); ++child) {
      int status = 0;
      const pid_t ended = ::waitpid(*child, &status, WNOHANG);
      if (ended < 0 && errno != EINTR) {
        throw Failure(ExitCode::kInternal, "cannot wait for the command: " + std::generic_category().message(errno));
      }
      if (ended != *child) continue;
      running_.erase(child);
      return {ended, EndFromStatus(status)};
    }
    siginfo_t info{};
    const int signal = tick ? ::sigtimedwait(&waited_, &info, &kTick) : ::sigwaitinfo(&waited_, &info);
    if (tick) tick();
    if (signal <= 0 || signal == SIGCHLD) continue;
    if (signal == SIGTERM || signal == SIGHUP || signal == SIGINT || signal == SIGQUIT) asked_to_end_ = signal;
    // The terminal signals the whole foreground group: the children have had theirs already.
    if (info.si_code != SI_KERNEL) Signal(signal);
  }
}

void Children::Signal(int signal) const {
  for (const pid_t child : running_) ::kill(child, signal);
}

ChildEnd RunChild(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  Children children;
  const pid_t child = children.Start(command, environment);
  if (child > 0) return children.WaitForOne().end;
  std::fprintf(stderr, "stalloc: error: cannot run %s: %s\n", command.front().c_str(),
               std::generic_category().message(-child).c_str());
  return {-child == ENOENT ? kNotFound : kNotExecutable, 0};
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
