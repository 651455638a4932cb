// A served process and what becomes of it.
//
// usage: lives exec|spawn|thread|quick|killed|plain
//   exec      goes on as another image of itself    spawn     starts another one and waits for it
//   thread    a thread calls exit() while main waits  quick   ends without its destructors
//   killed    by a signal that it does not handle, which comes while it allocates
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

extern char** environ;

static void Work(void) {
  for (int i = 0; i < 3; ++i) {
    void* block = NULL;
    CHECK(cudaMallocAsync(&block, 1 << 20, 0) == cudaSuccess);
    CHECK(cudaMemsetAsync(block, i, 1 << 20, 0) == cudaSuccess && cudaFreeAsync(block, 0) == cudaSuccess);
  }
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

static void* Exit(void* nothing) {
  (void)nothing;
  Work();
  exit(9);
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "plain";
  char* again[] = {argv[0], "plain", NULL};
  Work();
  if (strcmp(mode, "exec") == 0) execv(argv[0], again);
  if (strcmp(mode, "quick") == 0) _exit(5);
  if (strcmp(mode, "spawn") == 0) {
    pid_t child;
    int status = 0;
    CHECK(posix_spawn(&child, argv[0], NULL, NULL, again, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  if (strcmp(mode, "thread") == 0) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, &Exit, NULL) == 0);
    for (;;) pause();
  }
  if (strcmp(mode, "killed") == 0) {
    const struct itimerval soon = {{0, 0}, {0, 20000}};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);  // SIGALRM
    for (;;) Work();
  }
  return 0;
}
