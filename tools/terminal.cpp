#include "tools/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace stalloc::tools {

std::size_t OutputColumns() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  const char* const columns = std::getenv("COLUMNS");
  const long said = columns == nullptr ? 0 : std::strtol(columns, nullptr, 10);
  return said > 0 ? static_cast<std::size_t>(said) : 0;
}

bool SomebodyWatches() { return ::isatty(STDERR_FILENO) == 1; }

}  // namespace stalloc::tools
