#include "process_life.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "driver_table.h"
#include "framework_settings.h"
#include "loader.h"
#include "memory_checker.h"
#include "real_symbols.h"
#include "runtime/base/cancellation_off.h"
#include "runtime/base/log.h"
#include "runtime/base/settings.h"
#include "runtime/service/asked_files.h"
#include "runtime/service/service.h"

namespace stalloc::interpose {

constinit std::atomic<ProcessState> process_state{ProcessState::kUndecided};

namespace {

enum class Switch : int { kUnread, kOn, kOff };
constinit std::atomic<Switch> shim_switch{Switch::kUnread};

// Most processes that inherit the preload (shells, compilers) have no STALLOC_* variable: they pay for this loop only.
bool AnySettingInEnvironment() noexcept {
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable)
    if (std::strncmp(*variable, "STALLOC_", 8) == 0) return true;
  return false;
}

// For decisions that come before the start: what is wrong with a setting is said when the allocator starts, not in
// every child process. Settings that depend on more than their own variable may be missing. Throws for want of host
// memory.
runtime::Settings SettingsInSilence() {
  if (!AnySettingInEnvironment()) return {};
  std::vector<std::string> warnings;
  return runtime::LoadSettings(environ, &warnings);
}

// Other threads of the parent may have held locks, which nobody will release here: no hook does more than forward.
void EndInForkedChild() noexcept {
  shim_switch.store(Switch::kOff, std::memory_order_relaxed);
  process_state.store(ProcessState::kForwarding, std::memory_order_release);
  runtime::NoteForkedChild();
}

// Throws only for want of host memory.
bool Start() {
  const char* missing = nullptr;
  if (!DriverCovered(&missing)) {
    runtime::LogWarn(std::string("the driver has no ") + missing + ": memory is left to it");
    return false;
  }
  std::vector<std::string> warnings;
  const runtime::Settings settings = runtime::LoadSettings(environ, &warnings);
  runtime::SetLogLevel(settings.log);
  if (MemoryCheckerAttached()) {
    runtime::LogWarn("compute-sanitizer is attached: memory is left to the driver, whose blocks it checks");
    return false;
  }
  for (const std::string& warning : warnings) runtime::LogWarn(warning);
  if (!runtime::Start(UnwrappedDriver(), settings)) return false;
  if (const char* remark = PyTorchRemark()) runtime::LogWarn(remark);
  ::pthread_atfork(nullptr, nullptr, &EndInForkedChild);
  return true;
}

// What becomes of an attempt to start. Where the host has no memory for it, the driver is let say what it can do
// without; as memory may come back, it is tried again: with the next call, then after two, four and so on.
ProcessState AttemptToStart() noexcept {
  const runtime::CancellationOff no_cancellation;  // files are read and written, perhaps
  try {
    return Start() ? ProcessState::kServing : ProcessState::kForwarding;
  } catch (...) {
    static constinit std::atomic<bool> said{false};
    if (!said.exchange(true)) runtime::LogError("not serving: the host is out of memory; later requests try again");
    return ProcessState::kUndecided;
  }
}

// Calls while it is undecided; an attempt is due at each power of two.
bool AttemptDue() noexcept {
  static constinit std::atomic<std::uint64_t> calls{0};
  return std::has_single_bit(calls.fetch_add(1, std::memory_order_relaxed) + 1);
}

// Without memory of the host for anything else.
void GoOnDisabled() noexcept {
  shim_switch.store(Switch::kOff, std::memory_order_relaxed);
  constexpr std::string_view kLine =
      "stalloc error: the host is out of memory while the program is loaded: stalloc is off in this process\n";
  // Nobody is left to be told that standard error takes nothing.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kLine.data(), kLine.size());
}

// What an exception needs of the host's memory to be thrown at all, and what is read below.
constexpr std::size_t kNeededAtLoad = std::size_t{256} << 10;

// One line, and the shim is off. Where not even an exception can be made, none may be thrown: memory is tried first.
__attribute__((constructor)) void AtLoad() noexcept {
  if (void* const tried = std::malloc(kNeededAtLoad)) {
    std::free(tried);
  } else {
    return GoOnDisabled();
  }
  try {
    if (Enabled() && !MemoryCheckerAttached()) runtime::NoteAskedFiles(SettingsInSilence());
  } catch (...) {
    GoOnDisabled();
  }
}

// After the destructors of the program and of the libraries that it loaded later; those of libraries that it was linked
// with may still come, and free. The allocator goes on answering them.
__attribute__((destructor)) void AtExit() noexcept {
  if (ServingAlready()) return runtime::Finish();
  if (process_state.load(std::memory_order_acquire) != ProcessState::kUndecided || !Enabled()) return;
  try {
    runtime::SayWhichFilesAreMissing(SettingsInSilence());
  } catch (...) {  // without memory there is nothing to be said
  }
}

}  // namespace

bool Enabled() noexcept {
  Switch now = shim_switch.load(std::memory_order_relaxed);
  if (now == Switch::kUnread) [[unlikely]] {
    try {
      now = SettingsInSilence().disable ? Switch::kOff : Switch::kOn;
    } catch (...) {  // it is asked again when the host has memory
      return false;
    }
    shim_switch.store(now, std::memory_order_relaxed);
  }
  return now == Switch::kOn;
}

bool StartServing() noexcept {
  ProcessState now = process_state.load(std::memory_order_acquire);
  if (now == ProcessState::kServing) return true;
  if (now != ProcessState::kUndecided) return false;
  // Without a driver there is nothing to serve and nothing to say; one may still be loaded.
  if (DriverLibrary() == nullptr) return false;
  if (!AttemptDue()) return false;
  if (!process_state.compare_exchange_strong(now, ProcessState::kStarting, std::memory_order_acq_rel))
    return now == ProcessState::kServing;
  const ProcessState then = !Enabled() ? ProcessState::kForwarding : AttemptToStart();
  process_state.store(then, std::memory_order_release);
  return then == ProcessState::kServing;
}

}  // namespace stalloc::interpose
