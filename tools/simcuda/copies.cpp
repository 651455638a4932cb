#include "copies.h"

#include <utility>

namespace stalloc::simcuda {
namespace {

// Mapped memory that the acting contexts, the current one and the stream's, may not access is refused at once. What is
// not mapped at all faults when the work executes.
bool IsRefused(const Call& call, const Stream& stream, CUdeviceptr address, bool write) {
  const Mapping* mapping = std::as_const(call.machine.space).Find(address);
  if (mapping == nullptr || mapping->kind != Mapping::Kind::kVirtualMemory) return false;
  const auto allowed = [&](const Context* acting) {
    return acting == nullptr || (((write ? mapping->writable : mapping->readable) >> acting->device) & 1) != 0;
  };
  return !allowed(stream.context) || !allowed(call.context);
}

}  // namespace

CUresult QueueCopy(Call& call, Stream& stream, CopyEnd destination, CopyEnd source, std::size_t size_bytes, bool wait) {
  Machine& machine = call.machine;
  if (size_bytes == 0) return CUDA_SUCCESS;
  if (destination.address == 0 || source.address == 0) return CUDA_ERROR_INVALID_VALUE;
  // Managed memory has a device address that is a host's.
  for (CopyEnd* end : {&destination, &source}) {
    if (!end->on_device) continue;
    if (machine.FindHostRange(end->address) != nullptr)
      end->on_device = false;
    else if (!machine.space.IsReserved(end->address))
      return CUDA_ERROR_INVALID_VALUE;
    if (end->on_device && end->context == nullptr && IsRefused(call, stream, end->address, end == &destination))
      return CUDA_ERROR_INVALID_VALUE;
  }
  const auto pageable = [&](const CopyEnd& end) {
    return !end.on_device && machine.FindHostRange(end.address) == nullptr;
  };
  std::vector<std::uint8_t> snapshot;
  if (pageable(source)) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(source.address);
    snapshot.assign(bytes, bytes + size_bytes);
  }
  if (wait || pageable(destination)) {
    if (stream.capture != nullptr) return CheckHostWait(call, &stream);
    wait = true;
  }
  auto copy = std::make_shared<Copy>(destination, source, size_bytes, std::move(snapshot));
  if (const CUresult error = Submit(call, stream, std::move(copy))) return error;
  if (wait) machine.scheduler.Wait(stream.Here());
  return stream.context->error;
}

CUresult QueueFill(Call& call, Stream& stream, CUdeviceptr address, std::size_t size_bytes, std::uint32_t pattern,
                   std::size_t unit_bytes) {
  if (size_bytes == 0) return CUDA_SUCCESS;
  if (address % unit_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!call.machine.space.IsReserved(address) && call.machine.FindHostRange(address) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (IsRefused(call, stream, address, true)) return CUDA_ERROR_INVALID_VALUE;
  return Submit(call, stream, std::make_shared<Fill>(address, size_bytes, pattern));
}

}  // namespace stalloc::simcuda
