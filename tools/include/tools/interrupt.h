// Ctrl-C as a request to stop: a long search ends with the best that it has found. The second Ctrl-C ends the process.
//
// One at a time, made by the main thread before it starts others: they inherit that SIGINT is blocked. Gone with it.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <stop_token>
#include <thread>

namespace stalloc::tools {

class Interrupt {
 public:
  // Asks to stop after `deadline`, too; nullopt: never.
  explicit Interrupt(std::optional<std::chrono::steady_clock::duration> deadline);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return asked_.get_token(); }
  bool by_user() const { return by_user_.load(); }  // and not by the deadline

 private:
  void Await(const std::stop_token& over);

  const std::optional<std::chrono::steady_clock::duration> deadline_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<bool> by_user_{false};
  sigset_t before_{};
  std::stop_source asked_;
  std::jthread waiter_;  // last: it uses the others
};

}  // namespace stalloc::tools
