// DeviceService: everything that serves one device of this process: its memory, its learner, and the context they use.
#pragma once

#include <cuda.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/settings.h"
#include "runtime/device/device_memory.h"
#include "runtime/learning/learner.h"
#include "runtime/service/out_of_memory.h"

namespace stalloc::runtime {

class DeviceService {
 public:
  // What a recording says of itself that a process would be asked.
  struct Recorded {
    // Whose recording it is; 0 and empty, not known: any kept plan may be its own.
    std::uint64_t program = 0;
    std::string device_name{};
    std::uint64_t configuration = 0;          // see ProgramConfiguration
    std::function<std::uint64_t()> clock_ns;  // see MemoryPolicy
  };

  // Why a device is not served.
  struct Refusal {
    std::string reason;     // empty: the context cannot be used, another one may
    bool for_good = false;  // it is the device's nature; otherwise a later attempt may succeed
  };

  // Makes the service of `device`, whose `context` is current; nullptr: see `refusal`. `peers` outlives the service.
  // Starts from the kept plan if there is one that fits. `recorded`: for a recording in place of the process. Throws
  // for want of host memory.
  static std::unique_ptr<DeviceService> Make(const DriverApi& driver, const Settings& settings, CUdevice device,
                                             CUcontext context, const PeerAccess& peers, Refusal* refusal,
                                             const Recorded* recorded = nullptr);

  DeviceMemory& memory() { return *memory_; }
  const DeviceMemory& memory() const { return *memory_; }
  Learner& learner() { return *learner_; }
  const Learner& learner() const { return *learner_; }
  OutOfMemoryReporter& out_of_memory() { return out_of_memory_; }
  // The context in which the runtime makes its own calls.
  CUcontext context() const { return context_.load(std::memory_order_relaxed); }
  void SetContext(CUcontext context) { context_.store(context, std::memory_order_relaxed); }
  CUdevice device() const { return device_; }
  const std::string& name() const { return name_; }
  // STALLOC_MEMORY_LIMIT on this device. Where there is one, out of memory is said by stalloc and not by the driver.
  const std::optional<std::uint64_t>& limit_bytes() const { return limit_bytes_; }

 private:
  DeviceService() = default;

  CUdevice device_ = 0;
  std::atomic<CUcontext> context_{nullptr};
  std::string name_;
  std::optional<std::uint64_t> limit_bytes_;
  OutOfMemoryReporter out_of_memory_;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<Learner> learner_;
};

}  // namespace stalloc::runtime
