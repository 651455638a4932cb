#include "runtime/service/device_service.h"

#include "runtime/base/process_identity.h"
#include "runtime/call_sites/program_fingerprint.h"
#include "runtime/learning/plan_cache.h"

namespace stalloc::runtime {

namespace {

std::string DeviceName(const DriverApi& driver, CUdevice device) {
  char name[256] = {};
  return driver.cuDeviceGetName(name, sizeof name - 1, device) == CUDA_SUCCESS ? name : "";
}

// The runtime counts pages of 2 MiB; a device that wants others is left alone.
bool Servable(const DriverApi& driver, CUdevice device, DeviceService::Refusal* refusal) {
  int supported = 0;
  if (const CUresult result =
          driver.cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
      result != CUDA_SUCCESS) {
    *refusal = {"it does not say what it supports (CUDA error " + std::to_string(result) + ")"};
    return false;
  }
  if (supported == 0) {
    *refusal = {"the device has no virtual memory management", true};
    return false;
  }
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  std::size_t granularity = 0;
  if (const CUresult result =
          driver.cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
      result != CUDA_SUCCESS) {
    *refusal = {"it does not say its memory granularity (CUDA error " + std::to_string(result) + ")"};
    return false;
  }
  if (granularity == 0 || kPageBytes % granularity != 0) {
    *refusal = {"the device's memory granularity is " + std::to_string(granularity) + " bytes, not 2 MiB", true};
    return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<DeviceService> DeviceService::Make(const DriverApi& driver, const Settings& settings, CUdevice device,
                                                   CUcontext context, const PeerAccess& peers, Refusal* refusal,
                                                   const Recorded* recorded) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (driver.cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS) return nullptr;
  if (!Servable(driver, device, refusal)) return nullptr;
  std::unique_ptr<DeviceService> service(new DeviceService);
  service->device_ = device;
  service->SetContext(context);
  service->name_ = DeviceName(driver, device);

  MemoryPolicy policy;
  policy.growth = settings.growth.fixed;
  if (recorded != nullptr) policy.clock_ns = recorded->clock_ns;
  policy.peers = &peers;
  if (const auto limit = settings.memory_limit.BytesOn(total_bytes)) {
    policy.limit_bytes = *limit;
    service->limit_bytes_ = limit;
  }
  service->memory_ = std::make_unique<DeviceMemory>(driver, device, static_cast<int>(device), policy);
  if (const CUresult result = service->memory_->Initialise(); result != CUDA_SUCCESS) {
    *refusal = {"address ranges could not be reserved (CUDA error " + std::to_string(result) + ")"};
    return nullptr;
  }
  try {
    Learner::Options options;
    options.planning = settings.planning;
    options.program = recorded != nullptr ? recorded->program : ProgramFingerprint();
    options.device_name = recorded != nullptr ? recorded->device_name : service->name_;
    options.rank = ThisProcess().rank;
    if (settings.planning) {
      options.configuration = recorded != nullptr ? recorded->configuration : ProgramConfiguration();
      options.shelf = ShelfOf(settings, options.program, service->name_, static_cast<int>(device));
    }
    service->learner_ = std::make_unique<Learner>(*service->memory_, std::move(options));
    service->learner_->StartFromKept();
  } catch (const std::exception&) {
    service->memory_->Abandon();  // a later attempt takes addresses of its own
    throw;
  }
  return service;
}

}  // namespace stalloc::runtime
