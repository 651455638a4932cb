#include "tools/temporary_folder.h"

#include <cstdlib>
#include <system_error>

#include "tools/failure.h"

namespace stalloc::tools {

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "stalloc.XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw Failure(ExitCode::kInternal, pattern + ": cannot be created");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace stalloc::tools
