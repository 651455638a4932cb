// Commands run as children: in the place of this process (same terminal, same signals, same end), or for what they
// print.
#pragma once

#include <string>
#include <vector>

namespace stalloc::tools {

struct ChildEnd {
  int exit_code = 0;  // as a shell would say it: 128 + n if signal n ended it, 127 if it was not found
  int signal = 0;     // what ended it, or 0
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
