#include "tools/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "planner/whole_file.h"
#include "tools/failure.h"
#include "tools/load.h"

namespace stalloc::tools {

namespace fs = std::filesystem;

void CheckOutputFile(const std::string& path, const std::string& input, bool force) {
  if (path.empty()) return;
  std::error_code ignored;
  if (fs::equivalent(path, input, ignored)) {
    throw Failure(ExitCode::kUsage, path + ": is the input as well as the output");
  }
  if (fs::is_directory(path, ignored)) Throw(planner::SystemError(path, "create", EISDIR));
  if (planner::IsStream(path)) return;
  if (!force && fs::exists(fs::symlink_status(path, ignored))) {
    throw Failure(ExitCode::kInternal, path + ": exists already; --force overwrites it");
  }
  if (::access((fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".")).c_str(), W_OK) != 0)
    Throw(planner::SystemError(path, "create", errno));
}

}  // namespace stalloc::tools
