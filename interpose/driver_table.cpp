#include "driver_table.h"

#include "loader.h"

// Not entry_points.h, which undefines mappings of cuda.h: by these the names below become the versioned ones.

namespace stalloc::interpose {

runtime::DriverApi UnwrappedDriver() noexcept {
  runtime::DriverApi driver;
#define STALLOC_NAME_OF(symbol) #symbol
#define STALLOC_FILL(name, required) \
  driver.name = reinterpret_cast<decltype(driver.name)>(DriverSymbol(STALLOC_NAME_OF(name)));
  STALLOC_DRIVER_FUNCTIONS(STALLOC_FILL)
#undef STALLOC_FILL
#undef STALLOC_NAME_OF
  return driver;
}

}  // namespace stalloc::interpose
