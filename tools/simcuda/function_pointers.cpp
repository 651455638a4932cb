// The address of every entry point. This file does not include cuda.h, whose macros would rename the functions.
#include "function_pointers.h"

#pragma GCC visibility push(default)
extern "C" {
#define SIMCUDA_FUNCTION(symbol, name, since, checks, cost_ns) void symbol();
#define SIMCUDA_STREAM_FUNCTION(symbol, name, since, checks, cost_ns) \
  void symbol();                                                      \
  void symbol##_ptsz();
#define SIMCUDA_SYNCHRONOUS_FUNCTION(symbol, name, since, checks, cost_ns) \
  void symbol();                                                           \
  void symbol##_ptds();
#include "entry_points.def"
}
#pragma GCC visibility pop

namespace stalloc::simcuda {

void (*const kFunctionPointers[])() = {
#define SIMCUDA_FUNCTION(symbol, name, since, checks, cost_ns) &(symbol),
#define SIMCUDA_STREAM_FUNCTION(symbol, name, since, checks, cost_ns) &(symbol), &symbol##_ptsz,
#define SIMCUDA_SYNCHRONOUS_FUNCTION(symbol, name, since, checks, cost_ns) &(symbol), &symbol##_ptds,
#include "entry_points.def"
};

}  // namespace stalloc::simcuda
