// A library with a function that finds the next one of its own name, as OpenMP tools do: dlsym(RTLD_NEXT) must see this
// library as its caller. If it does not, it finds this very function again, and the program never comes back.
#include <dlfcn.h>

int StartTool(int depth) {
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "StartTool");
  if (depth > 8) return 1000;
  return next != 0 ? 1 + next(depth + 1) : 0;
}
