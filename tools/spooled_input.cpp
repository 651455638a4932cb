#include "tools/spooled_input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "tools/failure.h"

namespace stalloc::tools {

SpooledInput::SpooledInput(const std::string& named) : name_(named), path_(named) {
  const bool standard = named == "-";
  if (standard) name_ = "standard input";
  struct stat status {};
  if (standard ? ::fstat(STDIN_FILENO, &status) != 0 : ::stat(named.c_str(), &status) != 0) {
    if (standard) throw Failure(ExitCode::kInternal, name_ + ": " + std::strerror(errno));
    return;  // who opens it says why it cannot
  }
  if (standard && ::isatty(STDIN_FILENO) == 1)
    throw Failure(ExitCode::kUsage, "standard input is a terminal: name a file, or send one through a pipe");
  if (!standard && !S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode)) return;

  const int fd = standard ? ::dup(STDIN_FILENO) : ::open(named.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Failure(ExitCode::kInternal, name_ + ": open: " + std::strerror(errno));
  folder_ = std::make_unique<TemporaryFolder>();
  path_ = folder_->Path("input");
  std::ofstream copy(path_, std::ios::binary);
  std::vector<char> part(std::size_t{1} << 20);
  ssize_t got = 0;
  while ((got = ::read(fd, part.data(), part.size())) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    copy.write(part.data(), got);
  }
  const int error = got < 0 ? errno : 0;
  ::close(fd);
  copy.close();
  if (error != 0) throw Failure(ExitCode::kInternal, name_ + ": read: " + std::strerror(error));
  if (!copy) throw Failure(ExitCode::kInternal, path_ + ": cannot be written, for which " + name_ + " is copied");
}

std::string SpooledInput::WithName(std::string text) const {
  if (path_ == name_) return text;
  for (std::size_t at = 0; (at = text.find(path_, at)) != std::string::npos; at += name_.size())
    text.replace(at, path_.size(), name_);
  return text;
}

}  // namespace stalloc::tools
