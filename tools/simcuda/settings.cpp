// The environment variables of the simulated device.
#include <cstdlib>
#include <string_view>

#include "simcuda/device.h"

namespace stalloc::simcuda {
namespace {

constexpr int kMostDevices = 32;  // access is kept as a bit per device

// A whole number, with a unit where one is allowed. `value` stays as it is if the text is not one.
template <typename Number>
void Read(const char* name, Number* value, bool with_unit = false) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == 0) return;
  char* end = nullptr;
  unsigned long long number = std::strtoull(text, &end, 0);
  const std::string_view unit = end;
  if (with_unit && unit == "KiB")
    number <<= 10;
  else if (with_unit && unit == "MiB")
    number <<= 20;
  else if (with_unit && unit == "GiB")
    number <<= 30;
  else if (!unit.empty())
    return;
  *value = static_cast<Number>(number);
}

}  // namespace

Config ConfigFromEnvironment() {
  Config config;
  Read("SIMCUDA_DEVICES", &config.device_count);
  if (config.device_count < 0 || config.device_count > kMostDevices) config.device_count = Config().device_count;
  Read("SIMCUDA_MEMORY", &config.memory_bytes, true);
  Read("SIMCUDA_SEED", &config.seed);
  Read("SIMCUDA_LAG", &config.max_pending);
  int peers = config.peer_access ? 1 : 0;
  Read("SIMCUDA_PEERS", &peers);
  config.peer_access = peers != 0;
  return config;
}

}  // namespace stalloc::simcuda
