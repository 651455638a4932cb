// The part of the service that is told of what the program does beside asking for memory: streams that end, events,
// needs that cannot be met, forks. Contexts, captures and peers have files of their own.
#include <atomic>
#include <exception>
#include <mutex>
#include <string>

#include "runtime/base/log.h"
#include "runtime/device/capture.h"
#include "runtime/service/program_needs.h"
#include "runtime/service/service.h"
#include "runtime/service/signal_request.h"
#include "service/served_process.h"

namespace stalloc::runtime {

namespace {

void RecordOrder(Process& process, const DeviceService& service, planner::TraceEvent::Op op, CUevent event,
                 DeviceMemory::Noted noted) noexcept {
  if (noted.stream == kNoStream || !process.recorder.recording()) return;
  planner::TraceEvent order = EventOf(service, CUstream{}, noted.stream);
  order.op = op;
  order.sequence = noted.sequence;
  order.block = reinterpret_cast<std::uint64_t>(event);
  process.recorder.Record(order);
}

// Work that is captured does not happen, so it is behind nothing and nothing is behind it. The legacy stream never
// captures, and asking for it may be an error where another does.
bool IsCaptured(const Process& process, CUstream stream) noexcept {
  return stream != nullptr && stream != CU_STREAM_LEGACY && Captures(process.driver, stream);
}

}  // namespace

void NoteStreamDestroyed(CUstream stream) noexcept {
  if (IsDefaultStream(stream)) return;  // the driver does not
  Process* process = Serving();
  ForEachService(process, [&](DeviceService& service) {
    ContextScope scope(process->driver, service.context());
    service.memory().NoteStreamDestroyed(*OrderOf(stream, service.context()));
  });
  if (process != nullptr) process->stream_epoch.fetch_add(1);
}

void NoteNeed(Need need) noexcept {
  static constinit std::atomic<unsigned> noted{0};
  const unsigned bit = 1u << static_cast<unsigned>(need);
  Process* process = Serving();
  if (process == nullptr || (noted.fetch_or(bit) & bit) != 0) return;
  // What is served even so is of a pool, of which CUDA has no handles either.
  if (need == Need::kIpc && process->settings.ipc == Ipc::kOn) return;
  try {
    const Settings& settings = process->settings;
    if (need == Need::kIpc) {
      const bool kept = settings.ipc == Ipc::kAuto && !KeepNeed(settings, need).empty();
      LogWarn(
          std::string("a legacy IPC handle was asked for of memory that stalloc serves, which has none: ") +
          (kept ? "the next run of this program leaves cudaMalloc and cuMemAlloc to the driver, as STALLOC_IPC=on does"
                : "STALLOC_IPC=on leaves cudaMalloc and cuMemAlloc to the driver"));
    } else {
      const bool kept = !KeepNeed(settings, need).empty();
      LogWarn(std::string("this program sets up CUDA graph pools (torch.compile's reduce-overhead mode does), which "
                          "PyTorch does not have on its cudaMallocAsync backend (what is compiled so runs without "
                          "graphs): ") +
              (kept ? "the next run leaves PyTorch on its own allocator, as PYTORCH_ALLOC_CONF=backend:native does now"
                    : "PYTORCH_ALLOC_CONF=backend:native leaves PyTorch on its own allocator"));
    }
  } catch (const std::exception&) {  // the host is out of memory; the program's own error will tell
  }
}

std::uint64_t NoteEventRecords(CUevent event, CUstream stream) noexcept {
  Process* process = Serving();
  if (process == nullptr || event == nullptr) return 0;
  if (!IsCaptured(*process, stream)) {
    const Place place = PlaceOf(*process, stream);
    if (place.service == nullptr) return 0;
    try {
      return place.service->memory().NoteEventRecords(event, *OrderOf(stream, place.context));
    } catch (const std::exception&) {  // an order that is not known costs a wait at most
    }
  }
  NoteEventDestroyed(event);  // what it stood for before
  return 0;
}

void NoteEventRecorded(CUevent event, CUstream stream, std::uint64_t record, bool recorded) noexcept {
  Process* process = Serving();
  if (process == nullptr || record == 0) return;
  if (!recorded) return NoteEventDestroyed(event);  // what it stands for is not known any more
  const Place place = PlaceOf(*process, stream);
  if (place.service == nullptr) return;
  try {
    RecordOrder(*process, *place.service, planner::TraceEvent::Op::kRecord, event,
                place.service->memory().NoteEventRecorded(event, *OrderOf(stream, place.context), record));
  } catch (const std::exception&) {  // as above
  }
}

std::uint64_t RecordOf(CUevent event, CUstream waiting) noexcept {
  Process* process = Serving();
  const Place place = process != nullptr && event != nullptr ? PlaceOf(*process, waiting) : Place{};
  return place.service != nullptr ? place.service->memory().RecordOf(event) : 0;
}

void NoteStreamWaits(CUstream stream, CUevent event, std::uint64_t record) noexcept {
  Process* process = Serving();
  if (process == nullptr || IsCaptured(*process, stream)) return;  // by the wait itself, perhaps
  const Place place = PlaceOf(*process, stream);
  if (place.service == nullptr) return;
  try {
    RecordOrder(*process, *place.service, planner::TraceEvent::Op::kWait, event,
                place.service->memory().NoteStreamWaits(*OrderOf(stream, place.context), event, record));
  } catch (const std::exception&) {  // as above
  }
}

void NoteEventDestroyed(CUevent event) noexcept {
  ForEachService(Serving(), [&](DeviceService& service) { service.memory().NoteEventDestroyed(event); });
}

void NoteForkedChild() noexcept {
  SignalRequest::ForkedChild();
  if (Process* process = g_process.load()) process->recorder.ForkedChild();
  g_forked.store(true);
}

}  // namespace stalloc::runtime
