// A library whose constructor looks symbols up before the shim's own constructor has run: the loader initialises what a
// program is linked with first.
#include <dlfcn.h>

#include "check.h"

__attribute__((constructor)) static void Early(void) {
  CHECK(dlsym(RTLD_DEFAULT, "malloc") != NULL);
  CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL);
}

int EarlyLibrary(void) { return 1; }
