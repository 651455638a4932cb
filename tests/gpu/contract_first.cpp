// The fidelity contract, fourth part: a request while a stream captures, by the capture's mode, by who captures (the
// thread that asks, or another), and by whether it is the first request, a later one, or the first after the device was
// reset. Rows as in contract_api.cpp; the driver API only. Each cell is a process of its own: a first request comes
// once.
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "contract_api.h"

namespace {

constexpr std::size_t kBytes = 3 * kMiB;

struct Cell {
  CUstreamCaptureMode mode;
  bool other_thread_captures;
  enum class When { kFirst, kLater, kReset } when;
  enum class Request { kAsync, kAsyncDefault, kCaptured, kMalloc } request;
};

CUcontext primary = nullptr;

int MakeCurrent() {
  const int retained = DRIVER(cuDevicePrimaryCtxRetain)(&primary, 0);
  return retained != CUDA_SUCCESS ? retained : DRIVER(cuCtxSetCurrent)(primary);
}

int Ask(Cell::Request request, CUstream capturing, CUstream other, CUdeviceptr* address) {
  switch (request) {
    case Cell::Request::kAsync:
      return DRIVER(cuMemAllocAsync)(address, kBytes, other);
    case Cell::Request::kAsyncDefault:
      return DRIVER(cuMemAllocAsync)(address, kBytes, CUstream{CU_STREAM_PER_THREAD});
    case Cell::Request::kCaptured:
      return DRIVER(cuMemAllocAsync)(address, kBytes, capturing);
    case Cell::Request::kMalloc:
      break;
  }
  return DRIVER(cuMemAlloc)(address, kBytes);
}

// What was asked for before the capture; the answers are not the cell's.
void AskAndFree() {
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
  if (DRIVER(cuMemAllocAsync)(&address, kBytes, stream) == CUDA_SUCCESS) DRIVER(cuMemFreeAsync)(address, stream);
  DRIVER(cuStreamSynchronize)(stream);
  DRIVER(cuStreamDestroy)(stream);
}

// "request,set,status in the capture,end,graph,next request,its free"
std::string Answers(const Cell& cell) {
  int result = DRIVER(cuInit)(0u);
  if (result == CUDA_SUCCESS) result = MakeCurrent();
  if (result != CUDA_SUCCESS) return "no_device:" + Text(result);
  if (cell.when != Cell::When::kFirst) AskAndFree();
  if (cell.when == Cell::When::kReset) {
    DRIVER(cuDevicePrimaryCtxReset)(0);
    if (MakeCurrent() != CUDA_SUCCESS) return "no_device_after_reset";
  }
  CUstream capturing = nullptr;
  CUstream other = nullptr;
  DRIVER(cuStreamCreate)(&capturing, CU_STREAM_NON_BLOCKING);
  DRIVER(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING);

  CUdeviceptr address = 0;
  CUgraph graph = nullptr;
  int begun = -1, asked = -1, ended = -1;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const auto begin = [&] {
    DRIVER(cuCtxSetCurrent)(primary);
    begun = DRIVER(cuStreamBeginCapture)(capturing, cell.mode);
  };
  const auto end = [&] {
    DRIVER(cuStreamIsCapturing)(capturing, &status);
    ended = DRIVER(cuStreamEndCapture)(capturing, &graph);
  };
  const auto ask = [&] {
    DRIVER(cuCtxSetCurrent)(primary);
    asked = Ask(cell.request, capturing, other, &address);
  };
  begin();
  if (cell.other_thread_captures) {
    std::thread(ask).join();
  } else {
    ask();
  }
  end();
  CUdeviceptr next = 0;
  const int again = DRIVER(cuMemAllocAsync)(&next, kBytes, other);
  const int freed = again == CUDA_SUCCESS ? DRIVER(cuMemFreeAsync)(next, other) : -1;
  const int waited = DRIVER(cuStreamSynchronize)(other);
  return Joined({begun, asked}) + "," + YesNo(address != 0) + "," +
         Joined({static_cast<int>(status), ended, graph != nullptr, again, freed, waited});
}

std::string AnswersOfAProcess(const Cell& cell) {
  int ends[2];
  if (pipe(ends) != 0) return "no_pipe";
  const pid_t child = fork();
  if (child == 0) {
    const std::string answers = Answers(cell);
    const bool told = write(ends[1], answers.data(), answers.size()) == static_cast<ssize_t>(answers.size());
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  char text[256];
  ssize_t got = 0;
  std::string answers;
  while ((got = read(ends[0], text, sizeof text)) > 0) answers.append(text, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0 ? answers : "ended:" + Text(status);
}

}  // namespace

int main() {
  constexpr std::pair<const char*, CUstreamCaptureMode> kModes[] = {
      {"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
      {"thread_local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
      {"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED}};
  constexpr std::pair<const char*, Cell::When> kWhen[] = {
      {"first", Cell::When::kFirst}, {"later", Cell::When::kLater}, {"reset", Cell::When::kReset}};
  constexpr std::pair<const char*, Cell::Request> kRequests[] = {{"async", Cell::Request::kAsync},
                                                                 {"async_default", Cell::Request::kAsyncDefault},
                                                                 {"captured", Cell::Request::kCaptured},
                                                                 {"malloc", Cell::Request::kMalloc}};
  for (const auto& [request_name, request] : kRequests) {
    for (const auto& [when_name, when] : kWhen) {
      for (const auto& [mode_name, mode] : kModes) {
        for (const bool other : {false, true}) {
          const std::string name = std::string("capture_") + request_name + "_" + when_name + "_" + mode_name +
                                   (other ? "_other_thread" : "_same_thread");
          Row(name.c_str(), AnswersOfAProcess({mode, other, when, request}));
        }
      }
    }
  }
  return 0;
}
