#include "tools/progress_line.h"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "tools/text.h"

namespace stalloc::tools {
namespace {

constexpr auto kSilence = std::chrono::seconds(1);
constexpr auto kInterval = std::chrono::milliseconds(250);
constexpr const char* kClearLine = "\r\033[K";

}  // namespace

ProgressLine::ProgressLine() {
  if (::isatty(STDERR_FILENO) == 1) {
    drawer_ = std::jthread([this](std::stop_token stop) { Draw(std::move(stop)); });
  }
}

ProgressLine::~ProgressLine() {
  if (!drawer_.joinable()) return;
  drawer_.request_stop();
  drawer_.join();
}

void ProgressLine::Report(const planner::SolveProgress& progress) {
  const std::lock_guard lock(mutex_);
  latest_ = progress;
}

void ProgressLine::Draw(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  const auto stopped = [&] { return stop.stop_requested(); };
  if (wake_.wait_for(lock, stop, kSilence, stopped)) return;
  do {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    std::string line = Format("%.0f s", seconds);
    if (latest_) {
      line += ": " + HumanBytes(latest_->best_height_bytes) + ", lower bound " +
              HumanBytes(latest_->lower_bound_bytes) + " (" + latest_->method + ")";
    }
    std::fprintf(stderr, "%s%s", kClearLine, line.c_str());
    std::fflush(stderr);
  } while (!wake_.wait_for(lock, stop, kInterval, stopped));
  std::fputs(kClearLine, stderr);
}

}  // namespace stalloc::tools
