// dlsym and its neighbours where nothing of CUDA is loaded, and where something is.
#include <dlfcn.h>
#include <string.h>

#include "check.h"

int main(void) {
  // Without CUDA, what the shim exports must not be found: programs look for it to see whether there is CUDA.
  dlerror();
  CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL && dlerror() != NULL);
  CHECK(dlsym(NULL, "cudaMalloc") == NULL && dlerror() != NULL);
  void* self = dlopen(NULL, RTLD_NOW);
  CHECK(self != NULL && dlsym(self, "cuMemFree_v2") == NULL && dlerror() != NULL);

  // Names that begin alike, a null name, a null handle.
  CHECK(dlsym(NULL, "cudnnCreate") == NULL && dlsym(NULL, "cu") == NULL && dlsym(NULL, "") == NULL);
  CHECK(dlsym(RTLD_DEFAULT, "malloc") != NULL && dlsym(RTLD_NEXT, "malloc") != NULL);
  CHECK(dlsym(RTLD_DEFAULT, "dlsym") != NULL);

  // With it.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  CHECK(library != NULL);
  dlerror();
  CHECK(dlsym(library, "cuMemAlloc_v2") != NULL && dlerror() == NULL);
  CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == dlsym(library, "cuMemAlloc_v2"));
  CHECK(dlsym(library, "cudnnCreate") == NULL && dlerror() != NULL);
  CHECK(dlsym(library, "cuMemAlloc_v3") == NULL && dlerror() != NULL);
  CHECK(dlsym(library, "cuInit") == dlsym(RTLD_DEFAULT, "cuInit"));
  return 0;
}
