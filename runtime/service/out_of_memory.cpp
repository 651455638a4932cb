#include "runtime/service/out_of_memory.h"

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/base/figure_text.h"
#include "runtime/base/log.h"
#include "runtime/call_sites/call_site.h"
#include "runtime/call_sites/code_name.h"
#include "runtime/device/capture.h"
#include "runtime/service/device_service.h"

namespace stalloc::runtime {
namespace {

constexpr std::size_t kSitesShown = 10;
constexpr std::size_t kFramesShown = 3;

std::string Head(const OutOfMemoryFacts& facts) {
  std::string text = "out of memory on device " + std::to_string(facts.ordinal) + " (" + facts.device + "): ";
  text += (facts.refused.size_bytes != 0 ? SizeText(facts.refused.size_bytes) : std::string("memory")) + " requested";
  if (facts.refused.function != nullptr) text += std::string(" by ") + facts.refused.function;
  return text;
}

// What lies on the device and is not this process's served memory.
std::uint64_t OthersBytes(const OutOfMemoryFacts& facts) {
  const std::uint64_t known = facts.free_bytes + facts.memory.counters.reserved_bytes;
  return facts.device_bytes - std::min(facts.device_bytes, known);
}

struct Frames {
  std::array<std::uintptr_t, 16> addresses{};
  std::size_t count = 0;
};

// The way through the framework's allocator is the same for all: the innermost frames that they share are left out.
std::size_t SharedFrames(const std::vector<Frames>& sites) {
  if (sites.size() < 2) return 0;
  std::size_t shared = 0;
  for (;; ++shared)
    for (const Frames& site : sites)
      if (shared + 1 >= site.count || site.addresses[shared] != sites.front().addresses[shared]) return shared;
}

std::string SitesText(const std::vector<MemorySnapshot::Site>& sites) {
  const std::size_t shown = std::min(sites.size(), kSitesShown);
  std::vector<Frames> of_site(shown);
  std::vector<Frames> known;
  for (std::size_t i = 0; i < shown; ++i) {
    Frames& frames = of_site[i];
    frames.count = static_cast<std::size_t>(
        FramesOfSite(sites[i].tag, frames.addresses.data(), static_cast<int>(frames.addresses.size())));
    if (frames.count != 0) known.push_back(frames);
  }
  const std::size_t shared = SharedFrames(known);

  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const MemorySnapshot::Site& site = sites[i];
    const Frames& frames = of_site[i];
    text += "\n    " + SizeText(site.bytes) + " in " + std::to_string(site.blocks) +
            (site.blocks == 1 ? " block: " : " blocks: ");
    if (frames.count == 0) text += site.tag == 0 ? "call sites not taken" : "call site without frames";
    for (std::size_t k = shared; k < std::min(shared + kFramesShown, frames.count); ++k)
      text += (k == shared ? "" : " < ") + CodeName(frames.addresses[k]);
  }
  return text;
}

std::vector<std::string> Advice(const OutOfMemoryFacts& facts) {
  std::vector<std::string> advice;
  const MemoryCounters& counters = facts.memory.counters;
  const IdleMemory& idle = facts.memory.idle;
  const std::uint64_t wanted = std::max<std::uint64_t>(facts.refused.size_bytes, kPageBytes);
  if (facts.limit_bytes && counters.reserved_bytes + wanted > *facts.limit_bytes && facts.free_bytes >= wanted)
    advice.push_back("a higher STALLOC_MEMORY_LIMIT: it is " + SizeText(*facts.limit_bytes) + ", and the device has " +
                     SizeText(facts.free_bytes) + " free");
  const std::uint64_t others = OthersBytes(facts);
  if (others > facts.device_bytes / 10)
    advice.push_back("less beside it on the device: " + SizeText(others) +
                     " are held by other processes, or by what does not go through stalloc (CUDA contexts and modules, "
                     "NCCL, graphs, pools of the program's own)");
  if (idle.ordered_bytes >= wanted)
    advice.push_back(SizeText(idle.ordered_bytes) + " are idle but may still be in use by queued work" +
                     (facts.capturing ? ", which cannot be waited for while a CUDA graph is captured"
                                      : ": a synchronisation before this request frees them"));
  if (idle.remainder_bytes > counters.reserved_bytes / 20)
    advice.push_back("fewer small long-lived blocks: they keep " + SizeText(idle.remainder_bytes) +
                     " idle beside them");
  if (counters.live_bytes > counters.reserved_bytes / 2)
    advice.push_back(ShareText(std::min(counters.live_bytes, counters.reserved_bytes), counters.reserved_bytes) +
                     " of what is held is live: a smaller batch, recomputation of activations, or more devices");
  return advice;
}

// A request that could not be served if nothing else were there: nothing of what is held explains it.
std::optional<std::string> Impossible(const OutOfMemoryFacts& facts) {
  const std::uint64_t bytes = facts.refused.size_bytes;
  if (facts.device_bytes != 0 && bytes > facts.device_bytes)
    return Head(facts) + ", more than the device's " + SizeText(facts.device_bytes) + " in all";
  if (facts.limit_bytes && facts.refused.function == nullptr && bytes > *facts.limit_bytes)
    return Head(facts) + ", more than the " + SizeText(*facts.limit_bytes) + " in all of STALLOC_MEMORY_LIMIT";
  return std::nullopt;
}

}  // namespace

std::string OutOfMemoryReport(const OutOfMemoryFacts& facts) {
  if (const auto impossible = Impossible(facts)) return *impossible;
  const MemoryCounters& counters = facts.memory.counters;
  const IdleMemory& idle = facts.memory.idle;
  std::uint64_t blocks = 0;
  for (const MemorySnapshot::Site& site : facts.memory.sites) blocks += site.blocks;

  std::string text = Head(facts);
  text += "\n  live      " + SizeText(counters.live_bytes) + " in " + std::to_string(blocks) + " blocks (peak " +
          SizeText(counters.peak_live_bytes) + ")";
  text += "\n  reserved  " + SizeText(counters.reserved_bytes);
  if (facts.limit_bytes) text += " of a limit of " + SizeText(*facts.limit_bytes);
  text += " (peak " + SizeText(counters.peak_reserved_bytes) + ")";
  text += "\n  idle      " + SizeText(idle.ordered_bytes) + " in a stream's order, " + SizeText(idle.remainder_bytes) +
          " beside blocks in the same page, " + SizeText(idle.view_bytes) + " behind views in use, " +
          SizeText(idle.usable_bytes) + " ready";
  text += "\n  device    " + SizeText(facts.device_bytes) + ", " + SizeText(facts.free_bytes) + " free, " +
          SizeText(OthersBytes(facts)) + " held by others";
  if (!facts.memory.sites.empty()) text += "\n  largest call sites, by live bytes:" + SitesText(facts.memory.sites);
  const std::vector<std::string> advice = Advice(facts);
  if (!advice.empty()) text += "\n  what would help:";
  for (const std::string& sentence : advice) text += "\n    " + sentence;
  return text;
}

std::string OutOfMemoryAgain(const OutOfMemoryFacts& facts, std::uint64_t failures) {
  return Head(facts) + "; live " + SizeText(facts.memory.counters.live_bytes) + ", reserved " +
         SizeText(facts.memory.counters.reserved_bytes) + " (failure " + std::to_string(failures) +
         " since the report above)";
}

ReportPace::Say ReportPace::Next(Clock::time_point now) noexcept {
  const auto pause = kPause * (1 << std::clamp(reports_ - 1, 0, kMostDoublings));
  const bool report = reports_ == 0 || now - last_failure_ >= pause;
  last_failure_ = now;
  failures_ = report ? 1 : failures_ + 1;
  if (!report && now - last_said_ < kBetweenLines) return Say::kNothing;
  last_said_ = now;
  if (!report) return Say::kLine;
  ++reports_;
  return Say::kReport;
}

void OutOfMemoryReporter::Failed(const DriverApi& driver, const DeviceService& service,
                                 const Refused& refused) noexcept {
  if (!LogEnabled(LogLevel::kWarn)) return;
  ReportPace::Say say{};
  std::uint64_t failures = 0;
  {
    std::lock_guard lock(mutex_);
    say = pace_.Next(ReportPace::Clock::now());
    failures = pace_.failures();
  }
  if (say == ReportPace::Say::kNothing) return;
  try {
    OutOfMemoryFacts facts;
    facts.refused = refused;
    facts.ordinal = service.memory().ordinal();
    facts.device = service.name();
    facts.limit_bytes = service.limit_bytes();
    facts.capturing = DeviceMemory::captures_in_progress.load(std::memory_order_relaxed) != 0;
    facts.memory = service.memory().Snapshot();
    const RelaxedCapture relaxed(driver);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (driver.cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
      facts.free_bytes = free_bytes;
      facts.device_bytes = total_bytes;
    }
    LogWarn(say == ReportPace::Say::kReport ? OutOfMemoryReport(facts) : OutOfMemoryAgain(facts, failures));
  } catch (const std::exception&) {  // the host is short of memory too
  }
}

}  // namespace stalloc::runtime
