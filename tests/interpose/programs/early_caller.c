#include "check.h"

int EarlyLibrary(void);

int main(void) {
  CHECK(EarlyLibrary() == 1);
  return 0;
}
