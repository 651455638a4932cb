#include "stand_in.h"

#include <cuda.h>

namespace stalloc::simcuda::libraries {

Object* ObjectOf(Word word) { return Pointer<Object>(word); }

int Nothing(Arguments) { return 0; }

int CreateObject(Arguments arguments, int position) {
  *Pointer<Object*>(arguments[position]) = new Object();
  return 0;
}

int DestroyObject(Arguments arguments, int position) {
  delete ObjectOf(arguments[position]);
  return 0;
}

int StoreStream(Arguments arguments, int position) {
  ObjectOf(arguments[0])->stream = arguments[position];
  return 0;
}

int LoadStream(Arguments arguments, int position) {
  *Pointer<Word>(arguments[position]) = ObjectOf(arguments[0])->stream;
  return 0;
}

int SetHostInt(Arguments arguments, int position, int value) {
  if (arguments[position] != 0) *Pointer<std::int32_t>(arguments[position]) = value;
  return 0;
}

int SetHostSize(Arguments arguments, int position, std::size_t value) {
  *Pointer<std::size_t>(arguments[position]) = value;
  return 0;
}

namespace {

int Clear(Arguments arguments, int position, std::int64_t count) {
  const auto stream = reinterpret_cast<CUstream>(ObjectOf(arguments[0])->stream);
  if (arguments[position] != 0 && count > 0) {
    cuMemsetD32Async(arguments[position], 0, static_cast<std::size_t>(count), stream);
  }
  return 0;
}

}  // namespace

int ClearDeviceInt(Arguments arguments, int position) { return Clear(arguments, position, 1); }

int ClearDeviceInts(Arguments arguments, int position, int count_position) {
  return Clear(arguments, position, Int32(arguments[count_position]));
}

}  // namespace stalloc::simcuda::libraries
