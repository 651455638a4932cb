// Two libraries that define StartTool, one after the other in the search order: the first finds the second, the second
// nothing.
#include <dlfcn.h>

#include "check.h"

int StartTool(int depth);

int main(void) {
  CHECK(StartTool(0) == 1);
  return 0;
}
