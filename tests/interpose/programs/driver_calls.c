// The driver's memory functions, by the route named on the command line:
//   linked   the program's own undefined symbols (built with ROUTE_LINKED, -lcuda)
//   dlsym    dlopen of libcuda.so.1 and dlsym
//   four     cuGetProcAddress in its four-argument form, the names without versions
//   five     cuGetProcAddress_v2
// Holds with and without the shim.
#include <cuda.h>
#include <dlfcn.h>
#include <string.h>

#include "check.h"

#undef cuGetProcAddress

#ifdef ROUTE_LINKED
#define FIND(name, base, version, flags) (&name)
#else
typedef CUresult FourArguments(const char*, void**, int, cuuint64_t);
typedef CUresult FiveArguments(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

static void* library;
static FourArguments* four;
static FiveArguments* five;

// `name` as exported; `base`, `version` and `flags` as asked of the resolver.
static void* Find(const char* route, const char* name, const char* base, int version, cuuint64_t flags) {
  void* found = NULL;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (strcmp(route, "dlsym") == 0) return dlsym(library, name);
  if (strcmp(route, "four") == 0) {
    CHECK(four(base, &found, version, flags) == CUDA_SUCCESS);
    return found;
  }
  CHECK(five(base, &found, version, flags, &status) == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS);
  return found;
}

#define FIND(name, base, version, flags) ((__typeof__(&name))Find(route, STRING(name), base, version, flags))
#define STRING(name) STRING_OF(name)
#define STRING_OF(name) #name
#endif

int main(int count, char** arguments) {
  const char* route = count > 1 ? arguments[1] : "linked";
#ifndef ROUTE_LINKED
  library = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(library != NULL);
  four = (FourArguments*)dlsym(library, "cuGetProcAddress");
  five = (FiveArguments*)dlsym(library, "cuGetProcAddress_v2");
  CHECK(four != NULL && five != NULL);
  // The resolver through itself: four arguments from version 11.3 on, five from 12.0 on.
  if (strcmp(route, "four") == 0) {
    CHECK(four("cuGetProcAddress", (void**)&four, 11030, 0) == CUDA_SUCCESS);
  } else if (strcmp(route, "five") == 0) {
    CHECK(four("cuGetProcAddress", (void**)&five, 12000, 0) == CUDA_SUCCESS);
  }
#endif
  (void)route;
  CUcontext context = NULL;
  CUdeviceptr p = 0, q = 0;
  CHECK(FIND(cuInit, "cuInit", 2000, 0)(0) == CUDA_SUCCESS);
  __typeof__(&cuMemAlloc) allocate = FIND(cuMemAlloc, "cuMemAlloc", 13000, 0);
  __typeof__(&cuMemFree) release = FIND(cuMemFree, "cuMemFree", 13000, 0);
  __typeof__(&cuMemAllocAsync) allocate_async = FIND(cuMemAllocAsync, "cuMemAllocAsync", 13000, 1);
  __typeof__(&cuMemFreeAsync) release_async = FIND(cuMemFreeAsync, "cuMemFreeAsync", 13000, 1);

  CHECK(allocate(&p, 1000) != CUDA_SUCCESS);  // no context yet
  CHECK(FIND(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 13000, 0)(&context, 0) == CUDA_SUCCESS);
  CHECK(FIND(cuCtxSetCurrent, "cuCtxSetCurrent", 13000, 0)(context) == CUDA_SUCCESS);

  CHECK(allocate(NULL, 1000) == CUDA_ERROR_INVALID_VALUE);
  CHECK(allocate(&p, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(allocate(&p, 1000) == CUDA_SUCCESS && p != 0);
  CHECK(allocate_async(&q, 1000, 0) == CUDA_SUCCESS && q != 0 && q != p);
  CHECK(release_async(p, 0) == CUDA_SUCCESS);
  CHECK(release_async(p, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(release(q) == CUDA_SUCCESS);
  CHECK(release(0) == CUDA_SUCCESS);
  CHECK(allocate(&p, 1007) == CUDA_SUCCESS);  // the double passes sizes that end in 7
  CHECK(release(p) == CUDA_SUCCESS);
  return 0;
}
