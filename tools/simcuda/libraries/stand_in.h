// What the stand-ins for NVIDIA's libraries share: functions that compute nothing and answer what a caller needs to go
// on (handles, descriptors, workspace sizes, success).
//
// A library is a table: ROW(function, action, positions...). Every function is exported with C linkage and takes its
// integer and pointer arguments as machine words, in the order in which the calling convention passes them (arguments
// in floating-point registers are not counted). Its action gets the words and the positions of the arguments that it is
// about. So no header of the real libraries is needed, and one row serves all versions of a function. Words beyond a
// function's own arguments are whatever lies on the stack: an action reads only the words that its function has.
//
// How to add a function: a row in the library's table; where no action fits, a function of its own. One that PyTorch
// calls and no table has stops the program with the dynamic linker's message, which names it.
//
// Any thread may call; allocates host memory; queues work on the simulated device only to clear result codes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stalloc::simcuda::libraries {

using Word = std::uintptr_t;
using Arguments = const Word*;

// What every handle and descriptor is: it keeps what its functions told it. The first word stays 0 for callers that
// look into opaque structures.
struct Object {
  Word reserved = 0;
  Word stream = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t nonzeros = 0;
};

template <typename T>
T* Pointer(Word word) {
  return reinterpret_cast<T*>(word);
}
inline std::int64_t Int32(Word word) { return static_cast<std::int32_t>(word); }
inline std::int64_t Int64(Word word) { return static_cast<std::int64_t>(word); }
Object* ObjectOf(Word word);

// The actions. Each returns the library's status; 0 is success in all of them.
int Nothing(Arguments);
int CreateObject(Arguments arguments, int position);   // *argument = a new object
int DestroyObject(Arguments arguments, int position);  // deletes it
int StoreStream(Arguments arguments, int position);    // the object in argument 0 works on that stream
int LoadStream(Arguments arguments, int position);     // *argument = the stream of the object in argument 0
int SetHostInt(Arguments arguments, int position, int value);
int SetHostSize(Arguments arguments, int position, std::size_t value);
// Result codes on the device become 0, on the stream of argument 0's object: one, or as many as another argument says.
int ClearDeviceInt(Arguments arguments, int position);
int ClearDeviceInts(Arguments arguments, int position, int count_position);

}  // namespace stalloc::simcuda::libraries

#define STAND_IN_EXPORT extern "C" __attribute__((visibility("default")))

#define STAND_IN_FUNCTION(name, action, ...)                                                        \
  STAND_IN_EXPORT int name(STAND_IN_WORDS);                                                         \
  int name(STAND_IN_WORDS) {                                                                        \
    const STAND_IN_WORD arguments[] = {w0,  w1,  w2,  w3,  w4,  w5,  w6,  w7,  w8,  w9,  w10, w11,  \
                                       w12, w13, w14, w15, w16, w17, w18, w19, w20, w21, w22, w23}; \
    return action(arguments __VA_OPT__(, ) __VA_ARGS__);                                            \
  }

#define STAND_IN_WORD ::stalloc::simcuda::libraries::Word
#define STAND_IN_WORDS                                                                                              \
  STAND_IN_WORD w0, STAND_IN_WORD w1, STAND_IN_WORD w2, STAND_IN_WORD w3, STAND_IN_WORD w4, STAND_IN_WORD w5,       \
      STAND_IN_WORD w6, STAND_IN_WORD w7, STAND_IN_WORD w8, STAND_IN_WORD w9, STAND_IN_WORD w10, STAND_IN_WORD w11, \
      STAND_IN_WORD w12, STAND_IN_WORD w13, STAND_IN_WORD w14, STAND_IN_WORD w15, STAND_IN_WORD w16,                \
      STAND_IN_WORD w17, STAND_IN_WORD w18, STAND_IN_WORD w19, STAND_IN_WORD w20, STAND_IN_WORD w21,                \
      STAND_IN_WORD w22, STAND_IN_WORD w23
