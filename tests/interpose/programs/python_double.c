// Says what PyTorch's library reads of the environment (NAMES, or its allocator's two names), and what everybody else
// does, between brackets. ASKING_LIBRARY is that library. SETS is a variable and its value that the program sets first.
// Its name makes it a Python interpreter, its first argument that is no option is a script. With CAPTURE set it does what torch.compile's CUDA graph trees begin with: an empty capture;
// with CUDA set it allocates something, and as CUDA=handle asks for a legacy IPC handle of it, as CUDA=unjoined forks a
// capture and does not join it. With CHILD set, it does all that once more in a child, another interpreter that is given
// -c and CHILD's text; CHILD_SETS is a variable and its value that the child has besides.
#include <cuda.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static const char* OrDash(const char* value) { return value != NULL ? value : "-"; }

static int Use(void) {
  if (getenv("SETS") != NULL) putenv(getenv("SETS"));
  void* library = dlopen(getenv("ASKING_LIBRARY"), RTLD_NOW);
  CHECK(library != NULL);
  const char* (*ask)(const char*) = (const char* (*)(const char*))dlsym(library, "Ask");
  char* names = strdup(getenv("NAMES") != NULL ? getenv("NAMES") : "PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF");
  for (char* name = strtok(names, " "); name != NULL; name = strtok(NULL, " "))
    printf("%s [%s] ", OrDash(ask(name)), OrDash(getenv(name)));
  printf("\n");
  fflush(stdout);
  if (getenv("CUDA") == NULL) return 0;
  CUcontext context;
  CUdeviceptr block = 0;
  CUstream stream;
  CUgraph graph;
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS && cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  if (strcmp(getenv("CUDA"), "handle") == 0) {
    CUipcMemHandle handle;
    CHECK(cuMemAlloc(&block, 1 << 20) == CUDA_SUCCESS && cuIpcGetMemHandle(&handle, block) == CUDA_SUCCESS);
    return 0;
  }
  CHECK(cuMemAllocAsync(&block, 1 << 20, stream) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  // A capture of something is nobody's sign.
  if (strcmp(getenv("CUDA"), "empty") != 0) CHECK(cuMemsetD8Async(block, 0, 1 << 20, stream) == CUDA_SUCCESS);
  if (strcmp(getenv("CUDA"), "unjoined") == 0) {
    CUevent fork;
    CUstream side;
    CHECK(cuEventCreate(&fork, 0) == CUDA_SUCCESS && cuStreamCreate(&side, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    CHECK(cuEventRecord(fork, stream) == CUDA_SUCCESS && cuStreamWaitEvent(side, fork, 0) == CUDA_SUCCESS);
    CHECK(cuMemsetD8Async(block, 0, 1 << 20, side) == CUDA_SUCCESS);
    CHECK(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    return 0;
  }
  CHECK(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(block, stream) == CUDA_SUCCESS && cuStreamSynchronize(stream) == CUDA_SUCCESS);
  return 0;
}

static int RunChild(char* self, char* text) {
  const pid_t child = fork();
  if (child == 0) {
    char* arguments[] = {self, (char*)"-c", text, NULL};
    if (getenv("CHILD_SETS") != NULL) putenv(getenv("CHILD_SETS"));
    unsetenv("CHILD");
    execv(self, arguments);
    _exit(127);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

int main(int argc, char** argv) {
  (void)argc;
  const int code = Use();
  return code != 0 || getenv("CHILD") == NULL ? code : RunChild(argv[0], strdup(getenv("CHILD")));
}
