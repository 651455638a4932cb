// PeerAccess: which other devices may access one device's memory, and by whose word.
//
// CUDA gives access in two ways: cuCtxEnablePeerAccess, by a context to everything that a peer's context allocates, and
// cuMemPoolSetAccess, by a pool to what comes from it. A device's blocks share its pages whichever call they came from,
// so either word opens all of them: a block can be reached from where CUDA would let it be, and sometimes from one
// device more. The third way is the allocator's own: a copy that the driver makes of its own memory without any access
// may need it of mapped pages. Any thread. Changes are rare and take a lock of their own; what the mapping path asks
// takes none.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace stalloc::runtime {

inline constexpr std::size_t kMaxDevices = 64;  // CUDA itself shows at most 64 to a process

class PeerAccess {
 public:
  // `context`, of device `peer`, may access the memory from now on, or no longer.
  void Enable(CUdevice peer, CUcontext context);
  void Disable(CUdevice peer, CUcontext context);
  // The default pool's word for `peer`.
  void SetPool(CUdevice peer, CUmemAccess_flags flags);
  // `peer` has access from now on, whatever the program enables and disables. May be called by several threads at once:
  // until one of them has mapped what there is and says so by Opened, others are not told that there is access.
  void Open(CUdevice peer);
  // The driver has carried it out, or refused; then nobody need try again.
  void Opened(CUdevice peer, bool carried_out);
  bool Refused(CUdevice peer) const noexcept { return (refused_.load() >> peer & 1) != 0; }
  // `context` is about to be destroyed: its handle may come back for another one, which has no access.
  void ContextEnds(CUcontext context) noexcept;
  // Afterwards: it has been, and its access with it, or not. To be called until it returns -1; otherwise a device of
  // which that is so.
  CUdevice ContextEnded(CUcontext context, bool ended) noexcept;

  // True if work of `peer` may rely on its access.
  bool MayUse(CUdevice peer) const noexcept {
    return FlagsOf(peer) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE && (opening_.load() >> peer & 1) == 0;
  }

  // Counts changes.
  std::uint64_t version() const noexcept { return version_.load(); }
  CUmemAccess_flags FlagsOf(CUdevice peer) const noexcept {
    return static_cast<CUmemAccess_flags>(flags_[static_cast<std::size_t>(peer)].load());
  }
  // visit(peer, flags) for each device that has, or once had, access.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (std::uint64_t left = named_.load(); left != 0; left &= left - 1) {
      const CUdevice peer = __builtin_ctzll(left);
      visit(peer, FlagsOf(peer));
    }
  }

 private:
  void Update(CUdevice peer);  // under the lock

  std::mutex mutex_;
  struct Enabled {
    CUdevice peer;
    CUcontext context;
    bool ending = false;
  };
  std::vector<Enabled> contexts_;
  std::array<CUmemAccess_flags, kMaxDevices> pool_{};
  std::array<bool, kMaxDevices> opened_{};

  std::array<std::atomic<int>, kMaxDevices> flags_{};
  std::atomic<std::uint64_t> named_{0};  // bit k: device k
  std::atomic<std::uint64_t> opening_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> version_{0};
};

}  // namespace stalloc::runtime
