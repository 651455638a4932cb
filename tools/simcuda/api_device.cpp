// Entry points that describe devices: see cards.h.
#include <cstdio>
#include <cstring>

#include "call.h"

namespace stalloc::simcuda {
namespace {

int AttributeOf(const Machine& machine, CUdevice_attribute attribute, const Device& device) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return device.index + 1;
    default:
      return CardAttribute(machine.card(), attribute);
  }
}

CUresult WriteUuid(Call& call, CUuuid* uuid, int index) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (call.machine.FindDevice(index) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid, 0, sizeof(*uuid));
  std::memcpy(uuid->bytes, "simulated", 9);
  uuid->bytes[15] = static_cast<char>(index);
  return CUDA_SUCCESS;
}

}  // namespace

SIMCUDA_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return Enter(SIMCUDA_ENTRY(cuDeviceGet), [&](Call& call) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (call.machine.FindDevice(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceGetCount(int* count) {
  return Enter(SIMCUDA_ENTRY(cuDeviceGetCount), [&](Call& call) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(call.machine.devices.size());
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceGetName(char* name, int capacity, CUdevice index) {
  return Enter(SIMCUDA_ENTRY(cuDeviceGetName), [&](Call& call) {
    if (name == nullptr || capacity <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (call.machine.FindDevice(index) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(name, static_cast<std::size_t>(capacity), "%s",
                  call.machine.config.card != nullptr ? call.machine.config.card->name : "Simulated CUDA device");
    return CUDA_SUCCESS;
  });
}

#undef cuDeviceGetUuid
SIMCUDA_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice index) {
  return Enter(EntryPoint::k_cuDeviceGetUuid, [&](Call& call) { return WriteUuid(call, uuid, index); });
}

SIMCUDA_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice index) {
  return Enter(EntryPoint::k_cuDeviceGetUuid_v2, [&](Call& call) { return WriteUuid(call, uuid, index); });
}

SIMCUDA_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice index) {
  return Enter(SIMCUDA_ENTRY(cuDeviceGetAttribute), [&](Call& call) {
    const Device* device = call.machine.FindDevice(index);
    if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *value = AttributeOf(call.machine, attribute, *device);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceTotalMem(std::size_t* size_bytes, CUdevice index) {
  return Enter(SIMCUDA_ENTRY(cuDeviceTotalMem), [&](Call& call) {
    const Device* device = call.machine.FindDevice(index);
    if (size_bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *size_bytes = device->memory->total_bytes();
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceGetPCIBusId(char* text, int capacity, CUdevice index) {
  return Enter(SIMCUDA_ENTRY(cuDeviceGetPCIBusId), [&](Call& call) {
    if (text == nullptr || capacity <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (call.machine.FindDevice(index) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(text, static_cast<std::size_t>(capacity), "0000:%02x:00.0", index + 1);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceCanAccessPeer(int* can, CUdevice index, CUdevice peer) {
  return Enter(SIMCUDA_ENTRY(cuDeviceCanAccessPeer), [&](Call& call) {
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (call.machine.FindDevice(index) == nullptr || call.machine.FindDevice(peer) == nullptr)
      return CUDA_ERROR_INVALID_DEVICE;
    *can = index != peer && call.machine.Connected(index, peer);
    return CUDA_SUCCESS;
  });
}

}  // namespace stalloc::simcuda
