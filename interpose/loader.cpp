#include "loader.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace stalloc::interpose {
namespace {

void* FindRealDlsym() noexcept {
  // glibc moved dlsym from libdl to libc in 2.34 and gave it a new version there; before, its version was the first one
  // of the architecture. dlvsym skips this library, whose own dlsym has no version.
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
    if (void* found = ::dlvsym(RTLD_NEXT, "dlsym", version)) return found;
  }
  return nullptr;
}

// The path of the first loaded library that looks like libcudart. Where several are loaded, a renamed copy inside a
// wheel (libcudart-1a2b3c.so.12) comes after the one under its own name.
struct CudartSearch {
  char path[4096] = {};
};

int VisitLoadedObject(dl_phdr_info* info, std::size_t, void* data) noexcept {
  auto* search = static_cast<CudartSearch*>(data);
  const char* slash = std::strrchr(info->dlpi_name, '/');
  const char* file = slash != nullptr ? slash + 1 : info->dlpi_name;
  if (std::strncmp(file, "libcudart", 9) != 0) return 0;
  const bool own_name = std::strncmp(file, "libcudart.so", 12) == 0;
  if ((search->path[0] != '\0' && !own_name) || std::strlen(info->dlpi_name) >= sizeof search->path) return 0;
  std::strcpy(search->path, info->dlpi_name);
  return own_name ? 1 : 0;  // non-zero ends the iteration
}

}  // namespace

void* RealDlsymPointer() noexcept {
  static constinit std::atomic<void*> real{nullptr};
  void* found = real.load(std::memory_order_acquire);
  if (found == nullptr) [[unlikely]] {
    found = FindRealDlsym();
    if (found == nullptr) std::abort();  // no such C library exists, and no program can do without dlsym
    real.store(found, std::memory_order_release);
  }
  return found;
}

void* RealDlsym(void* handle, const char* name) noexcept {
  return reinterpret_cast<void* (*)(void*, const char*)>(RealDlsymPointer())(handle, name);
}

void* DriverLibrary() noexcept {
  static constinit std::atomic<void*> known{nullptr};
  void* library = known.load(std::memory_order_acquire);
  if (library == nullptr) {
    // The reference is kept: from now on pointers into it are handed out.
    library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) known.store(library, std::memory_order_release);
  }
  return library;
}

void* DriverSymbol(const char* name) noexcept {
  void* library = DriverLibrary();
  return library != nullptr ? RealDlsym(library, name) : nullptr;
}

void* RuntimeSymbol(const char* name) noexcept {
  if (void* found = RealDlsym(RTLD_NEXT, name)) return found;
  // Loaded without RTLD_GLOBAL (as every Python extension is), it is in no scope that can be searched from here.
  CudartSearch search;
  ::dl_iterate_phdr(VisitLoadedObject, &search);
  if (search.path[0] == '\0') return nullptr;
  void* library = ::dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
  return library != nullptr ? RealDlsym(library, name) : nullptr;
}

}  // namespace stalloc::interpose
