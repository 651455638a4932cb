// Requests in one of the patterns that decide whether there is something to plan.
//
// usage: patterns few|random|static|dynamic
//   few      three requests
//   random   what is asked for, and what is freed, never repeats
//   static   iterations that are all alike
//   dynamic  iterations with the same requests, half of whose sizes are another each time
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "check.h"

enum { kIterations = 40, kRequests = 400 };

static uint64_t state = 1;

static uint64_t Random(uint64_t bound) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % bound;
}

static void* Make(size_t bytes) {
  void* block = NULL;
  CHECK(cudaMallocAsync(&block, bytes, 0) == cudaSuccess);
  return block;
}

static void Free(void* block) { CHECK(cudaFreeAsync(block, 0) == cudaSuccess); }

// The arithmetic that is not here: time in which the pattern is learnt.
static void Work(void) {
  const struct timespec a_moment = {0, 20 * 1000 * 1000};
  nanosleep(&a_moment, NULL);
}

static void RandomRequests(void) {
  void* live[64] = {0};
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    for (int i = 0; i < kRequests; ++i) {
      void** slot = &live[Random(64)];
      if (*slot != NULL) Free(*slot);
      *slot = Make(1000 + Random(4000000));
    }
    Work();
  }
  for (int i = 0; i < 64; ++i)
    if (live[i] != NULL) Free(live[i]);
}

// A forward pass that keeps one block a layer, and a backward pass that frees them. `dynamic`: what is kept is of
// another size each time, and never all of it of its largest, so that room for the largest would be twice what is
// needed.
static void Iterations(int dynamic) {
  void* kept[kRequests / 2];
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    for (int i = 0; i < kRequests / 2; ++i)
      kept[i] = Make(dynamic ? 50000 + Random(2000000) : (size_t)(i % 7 + 1) * 100000);
    for (int i = kRequests / 2; i-- > 0;) {
      void* const gradient = Make((size_t)(i % 5 + 1) * 70000);
      Free(kept[i]);
      Free(gradient);
    }
    Work();
  }
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  if (strcmp(argv[1], "few") == 0)
    for (int i = 0; i < 3; ++i) Free(Make(1000000));
  if (strcmp(argv[1], "random") == 0) RandomRequests();
  if (strcmp(argv[1], "static") == 0) Iterations(0);
  if (strcmp(argv[1], "dynamic") == 0) Iterations(1);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  return 0;
}
