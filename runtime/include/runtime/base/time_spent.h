// TimeSpent: what serving a device's requests took on the host, by cause, in nanoseconds.
//
// Causes do not overlap: no timer runs inside another's. What is not timed is the usual path of a request, of some 100
// ns. Any thread; no locks; never allocates.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace stalloc::runtime {

enum class Cause : std::uint8_t {
  kMapping,    // pages and views, mapped and unmapped
  kSearch,     // for memory that is not one free run, under the device's lock
  kWaits,      // between streams, inserted
  kMarkers,    // events recorded and queried to follow the order of streams
  kCallSites,  // taken: one in kCallSitesPerSample is timed and stands for all
  kLearning,   // processor time of the learning thread: training waits for none of it where a core is free
};
inline constexpr std::size_t kCauses = 6;
// Two readings of the clock take some 50 ns, a call site 100 to 500 ns: timed each, they would take a tenth longer.
inline constexpr unsigned kCallSitesPerSample = 16;

// Nanoseconds by cause, at one moment.
struct SpentNs {
  std::array<std::uint64_t, kCauses> ns{};

  std::uint64_t operator[](Cause cause) const noexcept { return ns[static_cast<std::size_t>(cause)]; }
  std::uint64_t& operator[](Cause cause) noexcept { return ns[static_cast<std::size_t>(cause)]; }
  std::uint64_t us(Cause cause) const noexcept { return (*this)[cause] / 1000; }
  bool operator==(const SpentNs&) const = default;
  SpentNs operator-(const SpentNs& before) const noexcept {
    SpentNs spent;
    for (std::size_t i = 0; i < kCauses; ++i) spent.ns[i] = ns[i] - before.ns[i];
    return spent;
  }
};

class TimeSpent {
 public:
  void Add(Cause cause, std::uint64_t spent_ns) noexcept {
    ns_[static_cast<std::size_t>(cause)].fetch_add(spent_ns, std::memory_order_relaxed);
  }
  SpentNs Now() const noexcept {
    SpentNs now;
    for (std::size_t i = 0; i < kCauses; ++i) now.ns[i] = ns_[i].load(std::memory_order_relaxed);
    return now;
  }

 private:
  std::array<std::atomic<std::uint64_t>, kCauses> ns_{};
};

// Adds the time of its own life, by CLOCK_MONOTONIC or CLOCK_THREAD_CPUTIME_ID.
class SpentTimer {
 public:
  SpentTimer(TimeSpent& spent, Cause cause, clockid_t clock = CLOCK_MONOTONIC) noexcept
      : spent_(spent), cause_(cause), clock_(clock), begun_ns_(NowNs(clock)) {}
  ~SpentTimer() { spent_.Add(cause_, NowNs(clock_) - begun_ns_); }
  SpentTimer(const SpentTimer&) = delete;
  SpentTimer& operator=(const SpentTimer&) = delete;

 private:
  static std::uint64_t NowNs(clockid_t clock) noexcept {
    timespec now{};
    ::clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
  }

  TimeSpent& spent_;
  const Cause cause_;
  const clockid_t clock_;
  const std::uint64_t begun_ns_;
};

}  // namespace stalloc::runtime
