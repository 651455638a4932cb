#include "shared_devices.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace stalloc::simcuda {
namespace {

constexpr int kMostDevices = 32;
constexpr int kMostProcesses = 256;

bool IsAlive(int process) { return process != 0 && (kill(process, 0) == 0 || errno == EPERM); }

}  // namespace

struct SharedDevices::Slot {
  std::atomic<std::int32_t> process;
  std::atomic<std::uint64_t> bytes[kMostDevices];
};

// All zero at first, as the file is.
struct SharedDevices::File {
  Slot slots[kMostProcesses];
};

std::unique_ptr<SharedDevices> SharedDevices::Open(const std::string& name, std::string* error) {
  const std::string path = "/simcuda." + std::to_string(getuid()) + "." + name;
  const int descriptor = shm_open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void* memory = MAP_FAILED;
  if (descriptor >= 0 && ftruncate(descriptor, sizeof(File)) == 0)
    memory = mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) *error = "SIMCUDA_SHARED=" + name + ": /dev/shm" + path + ": " + std::strerror(errno);
  if (descriptor >= 0) close(descriptor);
  return memory == MAP_FAILED ? nullptr : std::unique_ptr<SharedDevices>(new SharedDevices(static_cast<File*>(memory)));
}

SharedDevices::~SharedDevices() {
  if (own_ != nullptr && own_->process == getpid()) {
    for (auto& bytes : own_->bytes) bytes = 0;
    own_->process = 0;
  }
  munmap(file_, sizeof(File));
}

SharedDevices::Slot* SharedDevices::Own() {
  const std::int32_t self = getpid();
  if (own_ != nullptr && own_->process == self) return own_;  // otherwise this is a child of the slot's process
  for (Slot& slot : file_->slots) {
    std::int32_t process = slot.process;
    if (IsAlive(process) || !slot.process.compare_exchange_strong(process, self)) continue;
    for (auto& bytes : slot.bytes) bytes = 0;
    return own_ = &slot;
  }
  return nullptr;
}

bool SharedDevices::Take(int device, std::uint64_t size_bytes, std::uint64_t total_bytes) {
  Slot* own = Own();
  if (own == nullptr) return false;
  own->bytes[device] += size_bytes;
  if (UsedBytes(device) <= total_bytes) return true;
  own->bytes[device] -= size_bytes;
  return false;
}

void SharedDevices::Return(int device, std::uint64_t size_bytes) {
  if (own_ != nullptr && own_->process == getpid()) own_->bytes[device] -= size_bytes;
}

std::uint64_t SharedDevices::UsedBytes(int device) const {
  std::uint64_t used = 0;
  for (const auto& [process, bytes] : Processes(device)) used += bytes;
  return used;
}

std::vector<std::pair<int, std::uint64_t>> SharedDevices::Processes(int device) const {
  std::vector<std::pair<int, std::uint64_t>> processes;
  for (const Slot& slot : file_->slots) {
    const std::uint64_t bytes = slot.bytes[device];
    if (bytes != 0 && IsAlive(slot.process)) processes.emplace_back(slot.process, bytes);
  }
  return processes;
}

}  // namespace stalloc::simcuda
