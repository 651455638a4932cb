// The runtime's table of driver functions, filled with the real ones.
#pragma once

#include "runtime/base/driver_api.h"

namespace stalloc::interpose {

// Null where the driver has no such function. Looks them up once a call; the program must have loaded the driver.
runtime::DriverApi UnwrappedDriver() noexcept;

}  // namespace stalloc::interpose
