#include "framework_settings.h"

#include <cstdlib>
#include <initializer_list>

namespace stalloc::interpose {
namespace {

// Variables that mean the same to their framework: none is set if the user has set any.
void SetUnlessSet(const char* value, std::initializer_list<const char*> names) noexcept {
  for (const char* name : names)
    if (std::getenv(name) != nullptr) return;  // NOLINT(concurrency-mt-unsafe): before main
  for (const char* name : names) ::setenv(name, value, 0);
}

}  // namespace

void SetFrameworkSettings() noexcept {
  // The second is the older name, which some versions of PyTorch read first.
  SetUnlessSet("backend:cudaMallocAsync", {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"});
  SetUnlessSet("cuda_async", {"XLA_PYTHON_CLIENT_ALLOCATOR"});
  SetUnlessSet("false", {"XLA_PYTHON_CLIENT_PREALLOCATE"});
  SetUnlessSet("cuda_malloc_async", {"TF_GPU_ALLOCATOR"});
}

}  // namespace stalloc::interpose
