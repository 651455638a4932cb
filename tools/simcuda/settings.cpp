// The environment variables of the simulated device.
#include <cstdlib>
#include <string>
#include <string_view>

#include "cards.h"
#include "runtime/base/byte_size.h"
#include "simcuda/device.h"

namespace stalloc::simcuda {
namespace {

constexpr int kMostDevices = 32;  // access is kept as a bit per device

// A whole number. `value` stays as it is if the text is not one.
template <typename Number>
void Read(const char* name, Number* value) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == 0) return;
  char* end = nullptr;
  const unsigned long long number = std::strtoull(text, &end, 0);
  if (*end == 0) *value = static_cast<Number>(number);
}

// A size, likewise.
void ReadSize(const char* name, std::uint64_t* bytes) {
  const char* text = std::getenv(name);
  if (text != nullptr) *bytes = runtime::ParseByteSize(text).value_or(*bytes);
}

}  // namespace

Config ConfigFromEnvironment(std::string* error) {
  Config config;
  const char* device = std::getenv("SIMCUDA_DEVICE");
  if (device != nullptr && *device != 0) {
    config.card = FindCard(device);
    if (config.card != nullptr)
      config.memory_bytes = config.card->memory_bytes;
    else if (error != nullptr)
      *error = std::string("SIMCUDA_DEVICE=") + device + ": no such card is simulated; there are " + CardKeys();
  }
  Read("SIMCUDA_DEVICES", &config.device_count);
  if (config.device_count < 0 || config.device_count > kMostDevices) config.device_count = Config().device_count;
  ReadSize("SIMCUDA_MEMORY", &config.memory_bytes);
  Read("SIMCUDA_SEED", &config.seed);
  Read("SIMCUDA_LAG", &config.max_pending);
  int clock = config.card != nullptr ? 1 : 0;
  Read("SIMCUDA_CLOCK", &clock);
  config.clock = clock != 0;
  if (const char* shared = std::getenv("SIMCUDA_SHARED")) config.shared = shared;
  int peers = config.peer_access ? 1 : 0;
  Read("SIMCUDA_PEERS", &peers);
  config.peer_access = peers != 0;
  return config;
}

}  // namespace stalloc::simcuda
