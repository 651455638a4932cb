// A folder that is nobody else's, and gone in the end.
#pragma once

#include <filesystem>
#include <string>

namespace stalloc::tools {

class TemporaryFolder {
 public:
  TemporaryFolder();  // throws Failure(kInternal)
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string Path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace stalloc::tools
