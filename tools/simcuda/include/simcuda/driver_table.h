// Fills a table of driver functions, such as runtime::DriverApi, with those of the simulated device.
//
// `functions` is an X-macro list whose entries begin with the function's name, STALLOC_DRIVER_FUNCTIONS of
// runtime/base/driver_api.h for instance:
//   runtime::DriverApi api;
//   SIMCUDA_FILL_DRIVER_TABLE(api, STALLOC_DRIVER_FUNCTIONS);
#pragma once

#include <cuda.h>

#define SIMCUDA_FILL_DRIVER_TABLE_ENTRY(name, ...) simcuda_table.name = &::name;
#define SIMCUDA_FILL_DRIVER_TABLE(table, functions) \
  do {                                              \
    auto& simcuda_table = (table);                  \
    functions(SIMCUDA_FILL_DRIVER_TABLE_ENTRY)      \
  } while (false)
