// In a file of its own: a compiler that sees both a caller of `new` and this takes `free` for the wrong way to undo it.
#include "host_memory.h"

#include <cstdlib>
#include <new>

namespace {
thread_local constinit int allowed = -1;  // so many more allocations succeed; negative: all of them
}

void* operator new(std::size_t bytes) {
  if (allowed == 0) throw std::bad_alloc();
  if (allowed > 0) --allowed;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
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
