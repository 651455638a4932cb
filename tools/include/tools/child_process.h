// Commands run as children: in the place of this process (same terminal, same signals, same end), several at once, or
// for what they print.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

namespace stalloc::tools {

struct ChildEnd {
  int exit_code = 0;  // as a shell would say it: 128 + n if signal n ended it, 127 if it was not found
  int signal = 0;     // what ended it, or 0
};

// Several commands at once. While one of these exists, signals sent to this process go on to the children; those that
// the terminal sends reach them by themselves. Only from a process without other threads, one object at a time.
class Children {
 public:
  Children();
  ~Children();  // children that still run are left alone
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // Runs `command` (found along PATH) with `environment` ("NAME=value"). If `output` is not empty, what the child
  // prints and reports goes into that file, and it has nothing to read. Returns its process id, or the error number
  // that says why it cannot run, negated: ENOENT, EACCES or ENOEXEC. Throws Failure(kInternal) for any other error.
  pid_t Start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
              const std::string& output = {});

  struct Ended {
    pid_t child = 0;
    ChildEnd end;
  };
  // Waits until one of the children ends. `tick`, if there is one, is called about four times a second meanwhile.
  Ended WaitForOne(const std::function<void()>& tick = {});

  // Sends `signal` to those that still run.
  void Signal(int signal) const;

  std::size_t running() const { return running_.size(); }
  // The signal by which this process was asked to end while it waited, or 0.
  int asked_to_end() const { return asked_to_end_; }

 private:
  const sigset_t waited_;
  sigset_t before_{};
  std::vector<pid_t> running_;
  int asked_to_end_ = 0;
};

// Runs `command` (found along PATH) with `environment` ("NAME=value"), and waits. Signals sent to this process
// meanwhile go on to the child; those that the terminal sends reach it by themselves. Throws Failure(kInternal) if no
// process can be started for another reason than the command's own. Call it from a process without other threads.
ChildEnd RunChild(const std::vector<std::string>& command, const std::vector<std::string>& environment);

// Ends this process as the child ended: by the same signal, so that whoever waits for it sees that, or by returning the
// exit code.
int EndAs(const ChildEnd& end);

struct ChildOutput {
  bool started = false;
  int exit_code = 0;  // 128 + n if signal n ended it
  std::string output;
  std::string errors;
};

// Runs `command` (found along PATH) with nothing to read, and waits for it.
ChildOutput CaptureChild(const std::vector<std::string>& command, const std::vector<std::string>& environment);

}  // namespace stalloc::tools
