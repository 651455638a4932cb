// How serving begins, what is said of it, and how it ends.
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/call_sites/call_site.h"
#include "runtime/service/asked_files.h"
#include "runtime/service/program_needs.h"
#include "runtime/service/service.h"
#include "runtime/service/signal_request.h"
#include "runtime/service/statistics.h"
#include "service/served_process.h"

namespace stalloc::runtime {

namespace {

std::atomic<bool> g_decided{false};

// A snapshot of everything, for the last line and the statistics file.
Statistics Collect(Process& process) {
  Statistics statistics;
  for (auto& slot : process.devices) {
    DeviceService* service = slot.load(std::memory_order_acquire);
    if (service != nullptr) statistics.devices.push_back(StatisticsOf(*service));
  }
  std::vector<DeviceService*> retired;
  {
    std::lock_guard lock(process.mutex);
    retired = process.retired;
  }
  for (const DeviceService* service : retired) statistics.AddEnded(StatisticsOf(*service));
  statistics.passed_through_requests = process.passed_requests.load(std::memory_order_relaxed);
  statistics.passed_through_bytes = process.passed_bytes.load(std::memory_order_relaxed);
  const Recorder::Counts counts = process.recorder.counts();
  statistics.trace_events = counts.delivered;
  statistics.trace_events_dropped = counts.dropped;
  return statistics;
}

void WriteIfWanted(const Process& process, const Statistics& statistics) {
  if (process.settings.stats.empty()) return;
  if (const auto error = WriteStatistics(statistics, process.settings.stats.Expand()))
    LogError("the statistics could not be written: " + error->Text());
}

// STALLOC_STATS_SIGNAL has come.
void ReportOnRequest(Process& process) {
  const Statistics statistics = Collect(process);
  if (process.settings.stats.empty()) LogLine(SummaryLine(statistics));
  WriteIfWanted(process, statistics);
}

void ListenForSignal(Process& process) {
  if (process.settings.stats_signal == StatsSignal::kOff) return;
  const int signal = process.settings.stats_signal == StatsSignal::kUser1 ? SIGUSR1 : SIGUSR2;
  if (!SignalRequest::Start(signal, [&process] { ReportOnRequest(process); }))
    LogWarn("STALLOC_STATS_SIGNAL has no effect: the program handles or ignores this signal itself");
}

// The settings, and what an earlier run of this program showed that it needs.
Settings WithNeeds(const Settings& settings) {
  Settings effective = settings;
  if (settings.ipc == Ipc::kAuto && KnownToNeed(settings, Need::kIpc)) {
    LogWarn(
        "an earlier run of this program asked for legacy IPC handles: cudaMalloc and cuMemAlloc are left to the driver "
        "(STALLOC_IPC=off serves them)");
    effective.ipc = Ipc::kOn;
  }
  if (effective.ipc == Ipc::kOn) effective.serve = Serve::kAsync;
  return effective;
}

}  // namespace

bool Start(const DriverApi& driver, const Settings& settings) {
  if (g_decided.exchange(true)) return Started();
  if (settings.disable) return false;
  try {
    SetLogLevel(settings.log);
#define STALLOC_CHECK_MEMBER(name, required)            \
  if (required && driver.name == nullptr) {             \
    LogError("not serving: this driver has no " #name); \
    return false;                                       \
  }
    STALLOC_DRIVER_FUNCTIONS(STALLOC_CHECK_MEMBER)
#undef STALLOC_CHECK_MEMBER
    // Said when there is still time to do something about it, and not behind a run of many hours.
    if (!settings.stats.empty())
      if (const auto obstacle = FindStatisticsObstacle(settings.stats.Expand()))
        LogError("the statistics will not be written: " + obstacle->Text());
    if (settings.planning || !settings.trace.empty()) LoadUnwinder();
    auto process = std::make_unique<Process>(driver, WithNeeds(settings));
    if (!settings.trace.empty()) process->traced = process->recorder.Start(settings.trace.Expand());
    ListenForSignal(*process);
    g_process.store(process.release(), std::memory_order_release);
    // Before the destructors of libraries, which may end contexts.
    std::atexit([] {
      if (Process* ending = g_process.load()) ending->exiting.store(true);
    });
    return true;
  } catch (const std::exception&) {
    g_decided.store(false);
    throw;
  }
}

bool Started() noexcept { return Serving() != nullptr; }

void Finish() noexcept {
  Process* process = Serving();
  if (process == nullptr || process->finished.exchange(true)) return;
  try {
    process->learning.Stop();
    process->recorder.Stop();
    SignalRequest::Stop();
    const Statistics statistics = Collect(*process);
    if (statistics.devices.empty()) return SayWhichFilesAreMissing(process->settings);  // nothing was asked for
    if (process->settings.summary) LogLine(SummaryLine(statistics));
    WriteIfWanted(*process, statistics);
  } catch (const std::exception&) {  // the program's end must not fail on its statistics
  }
}

}  // namespace stalloc::runtime
