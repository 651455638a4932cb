// A file that can be read twice: the named one, or a copy of what a pipe or standard input ("-") holds. One thread.
#pragma once

#include <memory>
#include <string>

#include "tools/temporary_folder.h"

namespace stalloc::tools {

class SpooledInput {
 public:
  // Copies a pipe to its end. Throws Failure: kUsage if "-" is a terminal, kInternal if the copy cannot be written.
  explicit SpooledInput(const std::string& named);

  const std::string& path() const { return path_; }

  // The copy's path, in what is said of it, replaced by the name that the user knows.
  std::string WithName(std::string text) const;

 private:
  std::string name_;
  std::string path_;
  std::unique_ptr<TemporaryFolder> folder_;  // where there is a copy
};

}  // namespace stalloc::tools
