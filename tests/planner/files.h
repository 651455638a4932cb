// Files for tests: temporary paths, contents, and where golden files and shared data lie. Header of the planner's
// tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace stalloc::planner {

// A folder that lives as long as the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "stalloc-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot create " << name;
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }
  bool Empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

inline std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void SetContents(const std::string& path, std::string_view contents) {
  std::ofstream(path, std::ios::binary).write(contents.data(), static_cast<std::streamsize>(contents.size()));
}

inline std::string GoldenPath(const std::string& name) { return std::string(STALLOC_GOLDEN_DIR) + "/" + name; }

// Set to a folder to write new golden files there instead of checking the kept ones.
inline const char* WriteGoldenTo() { return std::getenv("STALLOC_WRITE_GOLDEN"); }

// The data to measure with, which is no part of the product; empty where it is absent.
inline std::string SharedData() {
  const char* const set = std::getenv("STALLOC_SHARED_DATA");
  const std::string path = set != nullptr ? set : std::string(STALLOC_SOURCE_DIR) + "/../shared/data";
  return std::filesystem::is_directory(path) ? path : std::string();
}

}  // namespace stalloc::planner
