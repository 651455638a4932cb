// A Python program's double (programs/python_double.c) in a folder of its own, with scripts that a test writes there.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "run_program.h"

namespace stalloc::interpose {

// What the double says of PYTORCH_ALLOC_CONF and PYTORCH_CUDA_ALLOC_CONF where nobody has set them.
inline constexpr const char* kAsync = "backend:cudaMallocAsync [-] backend:cudaMallocAsync [-] \n";
inline constexpr const char* kLeft = "- [-] - [-] \n";

class Needs : public testing::Test {
 protected:
  Needs() {
    std::string folder = std::filesystem::temp_directory_path() / "stalloc-needs-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = folder;
    environment_ = Plain();
    environment_["LD_LIBRARY_PATH"] = STALLOC_SIMCUDA_DIRECTORY;
    environment_["LD_PRELOAD"] = STALLOC_LIBRARY;
    environment_["STALLOC_SUMMARY"] = "0";
    environment_["ASKING_LIBRARY"] = STALLOC_ASKING_C10;
    environment_["STALLOC_PLAN_CACHE"] = folder_ / "not" / "there" / "yet";
  }
  ~Needs() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  Outcome Python(const std::vector<std::string>& arguments) const {
    std::vector<std::string> command = {Program("python_double")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return RunProgram(command, environment_);
  }
  Outcome Run(const std::string& script) const { return Python({Write("train.py", script)}); }

  std::filesystem::path folder_;
  Environment environment_;
};

}  // namespace stalloc::interpose
