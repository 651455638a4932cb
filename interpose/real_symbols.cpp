#include "real_symbols.h"

#include "loader.h"

namespace stalloc::interpose {

namespace {

constinit std::atomic<bool> driver_learned{false};

// Real pointers that cuGetProcAddress gives and dlsym does not. No driver seen so far has any; the rows are for one
// that does.
constinit std::atomic<void*> other_pointers[kEntryCount] = {};

// A driver that looks up its own functions by name while it resolves others must get its own.
constinit thread_local bool asking_resolver __attribute__((tls_model("initial-exec"))) = false;

bool IsRealPointer(void* pointer) noexcept {
  for (const auto& known : real_pointers)
    if (known.load(std::memory_order_relaxed) == pointer) return true;
  return false;
}

void LearnOther(std::size_t row, void* pointer) noexcept {
  if (pointer != nullptr && !IsRealPointer(pointer)) other_pointers[row].store(pointer, std::memory_order_relaxed);
}

// Asks the driver's own resolver for each row, by both of its interfaces and with the flags under which a program would
// ask, in case it answers otherwise than dlsym.
void LearnFromResolver(std::size_t row) noexcept {
  const EntryPoint& point = kEntryPoints[row];
  const cuuint64_t flags = point.streams == Streams::kPerThread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                                                : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  void* found = nullptr;
  if (const auto resolve = Real<Entry::k_cuGetProcAddress>()) {
    if (resolve(point.base, &found, point.version, flags) == CUDA_SUCCESS) LearnOther(row, found);
  }
  if (const auto resolve = Real<Entry::k_cuGetProcAddress_v2>()) {
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    found = nullptr;
    if (resolve(point.base, &found, point.version, flags, &status) == CUDA_SUCCESS) LearnOther(row, found);
  }
}

// Fills in every driver row. Idempotent, and so cheap that two threads may do it at once.
void LearnDriver() noexcept {
  if (driver_learned.load(std::memory_order_acquire) || DriverLibrary() == nullptr) return;
  for (std::size_t row = 0; row < kEntryCount; ++row) {
    if (kEntryPoints[row].library == Library::kDriver) FindRealPointer(static_cast<Entry>(row));
  }
  asking_resolver = true;
  for (std::size_t row = 0; row < kEntryCount; ++row) {
    if (kEntryPoints[row].library == Library::kDriver) LearnFromResolver(row);
  }
  asking_resolver = false;
  driver_learned.store(true, std::memory_order_release);
}

}  // namespace

void* FindRealPointer(Entry entry) noexcept {
  const EntryPoint& point = PointOf(entry);
  auto& slot = real_pointers[static_cast<std::size_t>(entry)];
  if (void* known = slot.load(std::memory_order_acquire)) return known;
  void* found = point.library == Library::kDriver ? DriverSymbol(point.name) : RuntimeSymbol(point.name);
  if (found == point.wrapper) found = nullptr;  // this library under the name of another
  if (found != nullptr) slot.store(found, std::memory_order_release);
  return found;
}

void* WrapperFor(void* pointer) noexcept {
  if (pointer == nullptr || asking_resolver) return pointer;
  LearnDriver();
  for (std::size_t row = 0; row < kEntryCount; ++row) {
    if (real_pointers[row].load(std::memory_order_acquire) == pointer ||
        other_pointers[row].load(std::memory_order_acquire) == pointer) {
      return kEntryPoints[row].wrapper;
    }
  }
  return pointer;
}

bool DriverCovered(const char** missing) noexcept {
  LearnDriver();
  for (std::size_t row = 0; row < kEntryCount; ++row) {
    const EntryPoint& point = kEntryPoints[row];
    if (point.library == Library::kDriver && point.handling == Handling::kServe &&
        real_pointers[row].load(std::memory_order_acquire) == nullptr) {
      *missing = point.name;
      return false;
    }
  }
  return true;
}

}  // namespace stalloc::interpose
