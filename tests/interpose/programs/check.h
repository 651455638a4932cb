// CHECK(condition): the programs' only output is the first condition that does not hold, and exit code 1.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      _Exit(1);                                                                      \
    }                                                                                \
  } while (0)
