// A test over the model driver: what the model saw go wrong fails it.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "model_driver.h"

namespace stalloc::runtime {

class ModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model::device = &device_;
    api_ = model::Api();
  }
  void TearDown() override {
    for (const std::string& error : device_.errors) ADD_FAILURE() << error;
  }

  model::Device device_;
  DriverApi api_;
};

}  // namespace stalloc::runtime
