#include "planner/whole_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "planner/without_sigpipe.h"

namespace stalloc::planner {

bool IsStream(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) return false;
  if (!S_ISREG(status.st_mode)) return true;
  constexpr std::string_view kOpen[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/"};
  return std::any_of(std::begin(kOpen), std::end(kOpen), [&](std::string_view name) { return path.starts_with(name); });
}

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  int Close() {
    const int fd = fd_;
    fd_ = -1;
    return fd < 0 ? 0 : ::close(fd);
  }

 private:
  int fd_;
};

constexpr int kReadersPatienceMs = 2000;

// Until a pipe takes more. False, with errno set: its reader does not get on.
bool AwaitReader(int fd) {
  pollfd reader{.fd = fd, .events = POLLOUT, .revents = 0};
  if (::poll(&reader, 1, kReadersPatienceMs) != 0) return true;
  errno = ETIMEDOUT;
  return false;
}

bool WriteAll(int fd, std::span<const std::byte> contents) {
  while (!contents.empty()) {
    const ssize_t written = ::write(fd, contents.data(), contents.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN || !AwaitReader(fd)) return false;
      continue;
    }
    contents = contents.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

std::string FolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A pipe that nobody reads is an error, and one whose reader does not get on is so before long: neither may end or hold
// up the program that writes here when it has done its work.
std::optional<FileError> WriteIntoStream(const std::string& path, std::span<const std::byte> contents) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0) return SystemError(path, "open", errno);
  const WithoutSigpipe without_sigpipe;
  if (!WriteAll(file.get(), contents)) return SystemError(path, "write", errno);
  if (file.Close() != 0) return SystemError(path, "close", errno);
  return std::nullopt;
}

// The name that a link stands for, so that the file behind it is replaced and the link stays.
std::string BehindLinks(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return path;
  const std::unique_ptr<char, decltype(&std::free)> name(::realpath(path.c_str(), nullptr), &std::free);
  return name != nullptr ? name.get() : path;
}

}  // namespace

Result<std::vector<std::byte>> ReadWholeFile(const std::string& path, std::size_t limit_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return SystemError(path, "open", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return SystemError(path, "stat", errno);
  if (S_ISDIR(status.st_mode)) return SystemError(path, "read", EISDIR);
  const auto too_large = [&] {
    return FileError{FileError::Kind::kBadInput, path, "", "larger than " + std::to_string(limit_bytes) + " bytes"};
  };
  if (status.st_size > 0 && static_cast<std::uintmax_t>(status.st_size) > limit_bytes) return too_large();
  std::vector<std::byte> contents(static_cast<std::size_t>(status.st_size));
  std::size_t size = 0;
  for (;;) {  // to the end and not to st_size: the file may be a pipe, or grow
    if (size == contents.size()) {
      if (size > limit_bytes) return too_large();
      contents.resize(size + 64 * 1024);
    }
    const ssize_t got = ::read(file.get(), contents.data() + size, contents.size() - size);
    if (got < 0) {
      if (errno == EINTR) continue;
      return SystemError(path, "read", errno);
    }
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > limit_bytes) return too_large();
  contents.resize(size);
  return contents;
}

std::string NameBeside(const std::string& path, std::string_view infix) {
  static std::atomic<unsigned> counter{0};
  std::uint64_t random = 0;
  // Without the kernel's, which is always there once it has booted, the clock must do.
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
    random = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  std::string name = path;
  name.append(infix).append(std::to_string(::getpid()));
  return name + "-" + std::to_string(counter.fetch_add(1)) + "-" + std::to_string(random);
}

std::optional<FileError> WriteWholeFile(const std::string& named, std::span<const std::byte> contents, bool overwrite) {
  if (IsStream(named)) return WriteIntoStream(named, contents);
  const std::string path = overwrite ? BehindLinks(named) : named;
  const std::string temporary = NameBeside(path, ".tmp-");
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) return SystemError(path, "create", errno);
  const auto fail = [&](const char* doing) {
    const int code = errno;
    ::unlink(temporary.c_str());
    return SystemError(path, doing, code);
  };
  if (!WriteAll(file.get(), contents)) return fail("write");
  if (::fsync(file.get()) != 0) return fail("fsync");
  if (file.Close() != 0) return fail("close");
  if (overwrite) {
    if (::rename(temporary.c_str(), path.c_str()) != 0) return fail("rename");
  } else {
    // link() refuses an existing name in one step, rename() would replace it. File systems without hard links get a
    // check and a rename.
    if (::link(temporary.c_str(), path.c_str()) == 0) {
      ::unlink(temporary.c_str());
    } else if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) {
      if (::access(path.c_str(), F_OK) == 0) {
        errno = EEXIST;
        return fail("create");
      }
      if (::rename(temporary.c_str(), path.c_str()) != 0) return fail("rename");
    } else {
      return fail("create");
    }
  }
  // The name itself is lost in a crash until the folder is written; a folder that cannot be synced is no reason to
  // fail.
  const Descriptor folder(::open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
  return std::nullopt;
}

bool HoldsSomethingElse(const std::string& path, std::span<const char> magic) {
  if (IsStream(path)) return false;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) return false;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return errno != ENOENT;  // somebody has deleted it meanwhile
  std::string head(magic.size(), '\0');
  return ::read(file.get(), head.data(), head.size()) != static_cast<ssize_t>(head.size()) ||
         !std::equal(head.begin(), head.end(), magic.begin());
}

std::optional<FileError> FindObstacle(const std::string& named, std::span<const char> magic) {
  if (IsStream(named)) {
    if (::access(named.c_str(), W_OK) != 0) return SystemError(named, "open", errno);
    return std::nullopt;
  }
  const std::string path = BehindLinks(named);
  struct stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0;
  if (is_there && S_ISDIR(status.st_mode)) return SystemError(path, "create", EISDIR);
  if (::access(FolderOf(path).c_str(), W_OK | X_OK) != 0)
    return SystemError(path, is_there ? "replace, for which its folder must take a new file" : "create", errno);
  if (!HoldsSomethingElse(path, magic)) return std::nullopt;
  return FileError{FileError::Kind::kBadInput, path, "", "holds something else, and is left as it is"};
}

}  // namespace stalloc::planner
