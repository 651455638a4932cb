// Allocates, is sent SIGUSR2 while it waits in a system call, allocates again and ends.
//
// usage: signalled [handled|replaced|forked]
//   handled   it has a handler of its own before the first CUDA call; replaced: it sets one after that
//   forked    a child that it has forked sends the signal to itself
#include <cuda_runtime_api.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static volatile sig_atomic_t own_calls = 0;

static void OwnHandler(int signal) {
  (void)signal;
  ++own_calls;
}

static void SetOwnHandler(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = &OwnHandler;
  CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  void* blocks[2];
  if (strcmp(mode, "handled") == 0) SetOwnHandler();
  CHECK(cudaMallocAsync(&blocks[0], 1 << 20, 0) == cudaSuccess);
  if (strcmp(mode, "replaced") == 0) SetOwnHandler();
  if (strcmp(mode, "forked") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      raise(SIGUSR2);
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2);
    return 0;
  }
  CHECK(raise(SIGUSR2) == 0);
  const struct timespec a_moment = {0, 200 * 1000 * 1000};
  nanosleep(&a_moment, NULL);
  CHECK(own_calls == (*mode != 0 ? 1 : 0));
  CHECK(cudaMallocAsync(&blocks[1], 1 << 20, 0) == cudaSuccess);
  for (int i = 0; i < 2; ++i) CHECK(cudaFreeAsync(blocks[i], 0) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  return 0;
}
