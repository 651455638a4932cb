// The environment variables of the simulated device.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cards.h"
#include "simcuda/device.h"

namespace stalloc::simcuda {
namespace {

class Environment : public ::testing::Test {
 protected:
  ~Environment() override {
    for (const char* name :
         {"SIMCUDA_DEVICES", "SIMCUDA_MEMORY", "SIMCUDA_SEED", "SIMCUDA_LAG", "SIMCUDA_PEERS", "SIMCUDA_DEVICE"})
      unsetenv(name);
  }
};

TEST_F(Environment, ChoosesTheDevices) {
  setenv("SIMCUDA_DEVICES", "4", 1);
  setenv("SIMCUDA_MEMORY", "24GiB", 1);
  setenv("SIMCUDA_SEED", "7", 1);
  setenv("SIMCUDA_LAG", "0", 1);
  setenv("SIMCUDA_PEERS", "0", 1);
  const Config config = ConfigFromEnvironment();
  EXPECT_EQ(config.device_count, 4);
  EXPECT_EQ(config.memory_bytes, std::uint64_t{24} << 30);
  EXPECT_EQ(config.seed, 7u);
  EXPECT_EQ(config.max_pending, 0u);
  EXPECT_FALSE(config.peer_access);
  setenv("SIMCUDA_MEMORY", "1048576", 1);
  EXPECT_EQ(ConfigFromEnvironment().memory_bytes, 1048576u);
  // As everywhere else.
  setenv("SIMCUDA_MEMORY", "1.5g", 1);
  EXPECT_EQ(ConfigFromEnvironment().memory_bytes, std::uint64_t{1536} << 20);
  setenv("SIMCUDA_MEMORY", "2GB", 1);
  EXPECT_EQ(ConfigFromEnvironment().memory_bytes, 2000000000u);
}

TEST_F(Environment, NamesACard) {
  std::string error;
  setenv("SIMCUDA_DEVICE", "rtx4090", 1);
  Config config = ConfigFromEnvironment(&error);
  ASSERT_NE(config.card, nullptr);
  EXPECT_STREQ(config.card->name, "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(config.memory_bytes, config.card->memory_bytes);
  EXPECT_EQ(error, "");
  setenv("SIMCUDA_MEMORY", "8GiB", 1);
  EXPECT_EQ(ConfigFromEnvironment().memory_bytes, std::uint64_t{8} << 30);
  setenv("SIMCUDA_DEVICE", "rtx9", 1);
  config = ConfigFromEnvironment(&error);
  EXPECT_EQ(config.card, nullptr);
  EXPECT_NE(error.find("SIMCUDA_DEVICE=rtx9"), std::string::npos) << error;
  EXPECT_NE(error.find("h100, h200"), std::string::npos) << error;
}

TEST_F(Environment, WhatIsNoNumberKeepsTheDefault) {
  setenv("SIMCUDA_DEVICES", "99", 1);
  setenv("SIMCUDA_MEMORY", "plenty", 1);
  setenv("SIMCUDA_SEED", "7 or 8", 1);
  setenv("SIMCUDA_LAG", "", 1);
  const Config config = ConfigFromEnvironment(), defaults;
  EXPECT_EQ(config.device_count, defaults.device_count);
  EXPECT_EQ(config.memory_bytes, defaults.memory_bytes);
  EXPECT_EQ(config.seed, defaults.seed);
  EXPECT_EQ(config.max_pending, defaults.max_pending);
  EXPECT_TRUE(config.peer_access);
}

}  // namespace
}  // namespace stalloc::simcuda
