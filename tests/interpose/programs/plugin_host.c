// Loads a plugin without RTLD_GLOBAL: its libraries, the runtime library among them, are in no scope but its own.
#include <dlfcn.h>

#include "check.h"

int main(int count, char** arguments) {
  CHECK(count == 2);
  void* plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(plugin != NULL);
  int (*run)(void) = (int (*)(void))dlsym(plugin, "PluginRun");
  CHECK(run != NULL && run() == 1);
  return 0;
}
