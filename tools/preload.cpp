#include "tools/preload.h"

#include <system_error>

#include "tools/failure.h"

namespace stalloc::tools {

namespace fs = std::filesystem;

fs::path CommandPrefix() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (error) throw Failure(ExitCode::kInternal, "/proc/self/exe: " + error.message());
  return executable.parent_path().parent_path();
}

fs::path FindLibrary() {
  std::error_code error;
  const fs::path prefix = CommandPrefix();
  // In a build tree, and where this system's packages install libraries (lib/x86_64-linux-gnu, lib64).
  for (const char* folder : {"lib", STALLOC_INSTALL_LIBRARIES}) {
    fs::path library = prefix / folder / "libstalloc.so";
    if (fs::is_regular_file(library, error)) return library;
  }
  throw Failure(ExitCode::kInternal,
                (prefix / "lib" / "libstalloc.so").string() + ": not found; --library names another place");
}

std::string PrependPreload(const fs::path& library, const std::string& preloads) {
  constexpr const char* kSeparators = ": \t\n";
  const std::string path = library.string();
  if (path.find_first_of(kSeparators) != std::string::npos) {
    throw Failure(ExitCode::kInternal, path + ": cannot be preloaded from a path with a colon or a space");
  }
  std::string list = path;
  for (std::size_t begin = 0; begin < preloads.size();) {
    const std::size_t end = std::min(preloads.find_first_of(kSeparators, begin), preloads.size());
    const std::string entry = preloads.substr(begin, end - begin);
    if (!entry.empty() && entry != path) list += ":" + entry;
    begin = end + 1;
  }
  return list;
}

}  // namespace stalloc::tools
