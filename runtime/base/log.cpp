#include "runtime/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/sink.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>

#include "planner/without_sigpipe.h"
#include "runtime/base/cancellation_off.h"
#include "runtime/base/process_identity.h"

namespace stalloc::runtime {
namespace {

std::atomic<LogLevel> current_level{LogLevel::kWarn};

void WriteAll(const char* data, std::size_t size) noexcept {
  const planner::WithoutSigpipe guard;
  while (size > 0) {
    const ssize_t written = ::write(STDERR_FILENO, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    data += written;
    size -= static_cast<std::size_t>(written);
  }
}

// A sink without a lock, so that a fork at any moment leaves none held in the child: each line is formatted on its own
// and written by one call. spdlog's stderr sinks go through stdio and a lock of the process.
class StandardErrorSink final : public spdlog::sinks::sink {
 public:
  explicit StandardErrorSink(std::string pattern) : pattern_(std::move(pattern)) {}

  void log(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    spdlog::pattern_formatter(pattern_, spdlog::pattern_time_type::local, "\n").format(message, line);
    WriteAll(line.data(), line.size());
  }
  void flush() override {}
  void set_pattern(const std::string& pattern) override { pattern_ = pattern; }
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

 private:
  std::string pattern_;
};

// `%P` is the process id at the time of the line, right in a forked child too.
std::string Head() {
  const std::optional<int> rank = RankIn(environ);
  return rank ? "stalloc[%P r" + std::to_string(*rank) + "] " : std::string("stalloc[%P] ");
}

// Made at the first line, never destroyed: a line may come from the last destructor of the process.
spdlog::logger* MakeLogger(const std::string& pattern) {
  auto* logger = new spdlog::logger("stalloc", std::make_shared<StandardErrorSink>(pattern));
  logger->set_level(spdlog::level::trace);
  return logger;
}

spdlog::logger& Levelled() {
  static spdlog::logger* const logger = MakeLogger(Head() + "%l: %v");
  return *logger;
}

spdlog::logger& Plain() {
  static spdlog::logger* const logger = MakeLogger(Head() + "%v");
  return *logger;
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

// A hook's caller must not see what logging did to errno, nor any exception of it.
template <typename Write>
void Guarded(Write write) noexcept {
  const int before = errno;
  const CancellationOff no_cancellation;
  try {
    write();
  } catch (...) {  // no memory for the line: there is nowhere left to say so
  }
  errno = before;
}

}  // namespace

void SetLogLevel(LogLevel level) noexcept { current_level.store(level, std::memory_order_relaxed); }

bool LogEnabled(LogLevel level) noexcept {
  return level != LogLevel::kOff && level <= current_level.load(std::memory_order_relaxed);
}

void Log(LogLevel level, std::string_view text) noexcept {
  if (!LogEnabled(level)) return;
  Guarded([&] { Levelled().log(SpdlogLevel(level), spdlog::string_view_t(text.data(), text.size())); });
}

void LogLine(std::string_view text) noexcept {
  Guarded([&] { Plain().log(spdlog::level::info, spdlog::string_view_t(text.data(), text.size())); });
}

}  // namespace stalloc::runtime
