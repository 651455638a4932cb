// In a file of its own: a compiler that sees both a caller of `new` and this takes `free` for the wrong way to undo it.
#include "host_memory.h"

#include <cstdlib>
#include <new>

namespace {
thread_local constinit int allowed = -1;  // so many more allocations succeed; negative: all of them
}

// All that are undone by the same delete: a sanitizer has its own for each of them.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (allowed == 0) return nullptr;
  if (allowed > 0) --allowed;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  if (void* memory = ::operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace stalloc::runtime {

HostMemory::HostMemory(int allocations) noexcept { allowed = allocations; }
HostMemory::~HostMemory() { allowed = -1; }
bool HostMemory::exhausted() noexcept { return allowed == 0; }
void HostMemory::Exhaust() noexcept { allowed = 0; }

}  // namespace stalloc::runtime
