// cuSOLVER. Factorisations report success. Work areas: a panel of 64 columns for factorisations that go by panels, two
// matrices for eigenvalues and singular values; the real library's sizes are not documented and differ by version.
#include <algorithm>

#include "stand_in.h"

namespace stalloc::simcuda::libraries {
namespace {

constexpr std::int64_t kPanelColumns = 64;
constexpr std::int64_t kLargestElementBytes = 16;

std::int64_t Panel(Arguments arguments, int rows, int columns) {
  return kPanelColumns * std::max(Int32(arguments[rows]), Int32(arguments[columns]));
}

std::int64_t Square(Arguments arguments, int rows, int columns) {
  return 2 * Int32(arguments[rows]) * Int32(arguments[columns]) + Panel(arguments, rows, columns);
}

int SetElements(Arguments arguments, int position, std::int64_t elements) {
  return SetHostInt(arguments, position, static_cast<int>(std::min<std::int64_t>(elements, INT32_MAX)));
}

// The X functions: bytes on the device, and in the next argument bytes on the host.
int SetBytes(Arguments arguments, int position, std::int64_t elements) {
  SetHostSize(arguments, position, static_cast<std::size_t>(elements * kLargestElementBytes / 2));
  return SetHostSize(arguments, position + 1, 0);
}

int PanelElements(Arguments arguments, int position, int rows, int columns) {
  return SetElements(arguments, position, Panel(arguments, rows, columns));
}
int SquareElements(Arguments arguments, int position, int rows, int columns) {
  return SetElements(arguments, position, Square(arguments, rows, columns));
}
int PanelBytes(Arguments arguments, int position, int rows, int columns) {
  return SetBytes(arguments, position, Panel(arguments, rows, columns));
}
int SquareBytes(Arguments arguments, int position, int rows, int columns) {
  return SetBytes(arguments, position, Square(arguments, rows, columns));
}

}  // namespace

#define ROW(...) STAND_IN_FUNCTION(__VA_ARGS__)
#include "cusolver.def"
#undef ROW

}  // namespace stalloc::simcuda::libraries
