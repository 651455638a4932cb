// fork after CUDA has been used. The child's calls go to the driver, which refuses them after a fork (the fake one does
// not), and the summary is the parent's alone.
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

int main(void) {
  void* p = NULL;
  CHECK(cudaMalloc(&p, 1000) == cudaSuccess);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    void* q = NULL;
    if (cudaMalloc(&q, 1000) == cudaSuccess) CHECK(cudaFree(q) == cudaSuccess);
    CHECK(cudaFree((char*)p + 1) != cudaSuccess);
    exit(7);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  CHECK(cudaFree(p) == cudaSuccess);
  return 0;
}
