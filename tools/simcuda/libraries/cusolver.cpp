// cuSOLVER. Factorisations report success. Work areas, after what an H200 takes for matrices of 256 and 1 024: two
// columns (Cholesky, LU), a matrix and 2.5 MiB (QR), two matrices (eigenvalues, singular values).
#include <algorithm>

#include "stand_in.h"

namespace stalloc::simcuda::libraries {
namespace {

constexpr std::int64_t kReflectorElements = 640 << 10;

std::int64_t Columns(Arguments arguments, int rows, int columns) {
  return 2 * std::max(Int32(arguments[rows]), Int32(arguments[columns]));
}

std::int64_t Reflectors(Arguments arguments, int rows, int columns) {
  return Int32(arguments[rows]) * Int32(arguments[columns]) + kReflectorElements;
}

std::int64_t Square(Arguments arguments, int rows, int columns) {
  return 2 * Int32(arguments[rows]) * Int32(arguments[columns]) + 64 * Columns(arguments, rows, columns) / 2;
}

int SetElements(Arguments arguments, int position, std::int64_t elements) {
  return SetHostInt(arguments, position, static_cast<int>(std::min<std::int64_t>(elements, INT32_MAX)));
}

// The X functions: bytes on the device, and in the next argument bytes on the host.
int SetBytes(Arguments arguments, int position, std::int64_t elements) {
  SetHostSize(arguments, position, static_cast<std::size_t>(elements * 8));
  return SetHostSize(arguments, position + 1, 0);
}

int ColumnsElements(Arguments arguments, int position, int rows, int columns) {
  return SetElements(arguments, position, Columns(arguments, rows, columns));
}
int ColumnsBytes(Arguments arguments, int position, int rows, int columns) {
  return SetBytes(arguments, position, Columns(arguments, rows, columns));
}
int ReflectorsElements(Arguments arguments, int position, int rows, int columns) {
  return SetElements(arguments, position, Reflectors(arguments, rows, columns));
}
int ReflectorsBytes(Arguments arguments, int position, int rows, int columns) {
  return SetBytes(arguments, position, Reflectors(arguments, rows, columns) / 2);  // of four bytes, not of eight
}
int SquareElements(Arguments arguments, int position, int rows, int columns) {
  return SetElements(arguments, position, Square(arguments, rows, columns));
}
int SquareBytes(Arguments arguments, int position, int rows, int columns) {
  return SetBytes(arguments, position, Square(arguments, rows, columns));
}

}  // namespace

#define ROW(...) STAND_IN_FUNCTION(__VA_ARGS__)
#include "cusolver.def"
#undef ROW

}  // namespace stalloc::simcuda::libraries
