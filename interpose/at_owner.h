// Calls on memory that another device serves.
//
// From and to cuMemAlloc memory the driver copies, and fills it, whichever device is current. Mapped memory, as served
// memory is, it refuses to a device that has not been given access. There are two cures:
//   - The call is made where the memory is (AtOwner): in the owner's context, on a stream of its own between two
//     events, by which it keeps its place in the order of the stream that it was meant for. This needs no access, and
//     gives none.
//   - The devices that act are given access (OpenToActing), where one place will not do or there is nothing to wait for
//     events: copies of rows between two devices, batches, graphs and what is captured for one. From then on the driver
//     takes all calls as they are; and a kernel that would have faulted on memory of cuMemAlloc no longer does.
//
// Any thread; costs a few loads in a process that sees one device. Takes no lock and allocates nothing itself.
#pragma once

#include <optional>

#include "driver_call.h"
#include "process_life.h"
#include "real_symbols.h"
#include "runtime/service/service.h"
#include "stream_order.h"

namespace stalloc::interpose {

struct MemoryOwner {
  int device = -1;
  CUcontext context = nullptr;
};

// True once served memory can belong to another device than the one that acts.
inline bool SeveralDevices() noexcept { return ServingAlready() && runtime::ServesAmongSeveralDevices(); }

// The owner of served memory that the current device or the stream's has no access to; nothing for other memory.
std::optional<MemoryOwner> OwnerElsewhere(CUdeviceptr address, CUstream stream) noexcept;

// Gives the current device and the stream's access to served memory that is elsewhere, for as long as the process
// lives. False if some of it stays out of their reach: the hardware may have no such access. It stays open also where
// the driver then refuses the call that it was opened for: no answer of CUDA's tells of it, and closed again it would
// be gone from under what other threads have queued or captured since, having found it open.
bool OpenToActing(CUdeviceptr address, CUstream stream) noexcept;

// Whether the function returns only when the device has done what was asked.
enum class HostWaits : bool { kNo, kYes };

// While one lives and is open, the context in which the call is to be made is current.
class AtOwner {
 public:
  // `stream` is what the call was meant for, as Order gives it.
  AtOwner(const MemoryOwner& owner, CUstream stream) noexcept;
  ~AtOwner();
  AtOwner(const AtOwner&) = delete;
  AtOwner& operator=(const AtOwner&) = delete;

  bool open() const noexcept { return open_; }
  // Where to make the call.
  CUstream stream() const noexcept { return made_ != nullptr ? made_ : meant_; }
  // Brings what follows in the stream that was meant behind the call, whose result this is. Returns the program's.
  CUresult Finish(CUresult result, HostWaits waits) noexcept;

 private:
  bool Push(CUcontext context) noexcept;
  void Pop() noexcept;
  bool MakeStream(CUcontext owner) noexcept;

  const CUstream meant_;
  CUstream made_ = nullptr;  // null: the call is made on the stream that was meant
  CUevent before_ = nullptr;
  CUevent after_ = nullptr;
  int pushed_ = 0;
  bool open_ = false;
};

// `call(stream)` is the call in its asynchronous form, `forward()` what the program asked for.
template <typename Call, typename RealCall>
CUresult CallAtOwner(CUdeviceptr memory, CUstream stream, HostWaits waits, Call call, RealCall forward) noexcept {
  if (const std::optional<MemoryOwner> owner = OwnerElsewhere(memory, stream)) {
    {
      AtOwner at(*owner, stream);
      if (at.open()) return at.Finish(call(at.stream()), waits);
    }
    OpenToActing(memory, stream);  // the stream captures
  }
  return forward();
}

// The same for a function whose memory can only be the one. `arguments` are the program's.
template <Entry kEntry, typename Call, typename... Arguments>
CUresult ForwardToOwner(CUdeviceptr memory, CUstream stream, HostWaits waits, Call call,
                        Arguments... arguments) noexcept {
  const auto forward = [&] { return Forward<kEntry>(arguments...); };
  if (!SeveralDevices()) [[likely]]
    return forward();
  return CallAtOwner(memory, Order(stream, PointOf(kEntry).streams), waits, call, forward);
}

}  // namespace stalloc::interpose
