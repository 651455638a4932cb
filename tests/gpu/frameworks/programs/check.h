// Ends a test program with the failing expression. For programs that must not meet an error.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK_CUDA(expression)                                                                                   \
  do {                                                                                                           \
    const auto check_status = (expression);                                                                      \
    if (static_cast<int>(check_status) != 0) {                                                                   \
      std::printf("result failed %s=%d\n", #expression, static_cast<int>(check_status));                         \
      std::fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #expression, static_cast<int>(check_status)); \
      std::exit(1);                                                                                              \
    }                                                                                                            \
  } while (false)
