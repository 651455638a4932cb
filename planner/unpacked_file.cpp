#include "planner/unpacked_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <string_view>

namespace stalloc::planner {

struct UnpackedFile::State {
  std::string path;
  gzFile file = nullptr;
  std::uint64_t position = 0;  // in the unpacked contents
  bool cut_off = false;

  ~State() {
    if (file != nullptr) ::gzclose(file);
  }

  FileError Error() {
    int code = Z_OK;
    std::string_view reason = ::gzerror(file, &code);
    if (code == Z_ERRNO) return SystemError(path, "read", errno);
    cut_off = code == Z_BUF_ERROR;
    // zlib names the file, or the descriptor, itself.
    if (const std::size_t name = reason.find(": "); name != std::string_view::npos) reason.remove_prefix(name + 2);
    return {FileError::Kind::kBadInput, path, "byte " + std::to_string(position) + " of what it unpacks to",
            "gzip: " + (cut_off ? "truncated: the file ends within the stream" : std::string(reason))};
  }
};

UnpackedFile::UnpackedFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
UnpackedFile::~UnpackedFile() = default;
bool UnpackedFile::cut_off() const { return state_->cut_off; }
bool UnpackedFile::gzipped() const { return ::gzdirect(state_->file) == 0; }

Result<std::unique_ptr<UnpackedFile>> UnpackedFile::Open(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return SystemError(path, "open", errno);
  if (S_ISDIR(status.st_mode)) return SystemError(path, "read", EISDIR);  // zlib reads one as an empty file
  if (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)) {
    return FileError{FileError::Kind::kIo, path, "",
                     "is a pipe, which can be read only once; put it into a file first"};
  }
  auto state = std::make_unique<State>();
  state->path = path;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError(path, "open", errno);
  state->file = ::gzdopen(fd, "rb");
  if (state->file == nullptr) {
    ::close(fd);
    return FileError{FileError::Kind::kIo, path, "", "open: out of memory"};
  }
  ::gzbuffer(state->file, 256 * 1024);
  return std::unique_ptr<UnpackedFile>(new UnpackedFile(std::move(state)));
}

Result<std::size_t> UnpackedFile::Read(void* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const auto part = static_cast<unsigned>(
        std::min<std::size_t>(size - done, static_cast<std::size_t>(std::numeric_limits<int>::max())));
    errno = 0;
    const int got = ::gzread(state_->file, static_cast<char*>(to) + done, part);
    if (got < 0) return state_->Error();
    state_->position += static_cast<std::size_t>(got);
    done += static_cast<std::size_t>(got);
    if (got == static_cast<int>(part)) continue;
    // What is there comes first; that the stream was cut off behind it is only in the state.
    int code = Z_OK;
    ::gzerror(state_->file, &code);
    if (done == 0 && code != Z_OK && code != Z_STREAM_END) return state_->Error();
    break;
  }
  return done;
}

}  // namespace stalloc::planner
