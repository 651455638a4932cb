// TraceWriter, declared in planner/trace_file.h; trace_block.h has the format.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "planner/trace_file.h"
#include "planner/whole_file.h"
#include "trace_block.h"
#include "trace_codec.h"

namespace stalloc::planner {
namespace {

FileError SomethingElse(const std::string& path) {
  return {FileError::Kind::kBadInput, path, "", "holds something else, and is left as it is"};
}

struct CompressFree {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

}  // namespace

struct TraceWriter::State {
  std::string path;
  int fd = -1;
  TraceEncoding encoding = TraceEncoding::kZstd;
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;  // of whole blocks
  std::optional<FileError> error;
  HashState hash{XXH3_createState()};
  std::unique_ptr<ZSTD_CCtx, CompressFree> context{ZSTD_createCCtx()};
  std::vector<std::byte> columns;
  std::vector<std::byte> compressed;

  ~State() {
    if (fd >= 0) ::close(fd);
  }

  std::optional<FileError> Write(const TraceBlockHeader& header, const std::byte* payload) {
    iovec parts[2] = {{const_cast<TraceBlockHeader*>(&header), sizeof(header)},
                      {const_cast<std::byte*>(payload), header.stored_bytes}};
    std::size_t left = sizeof(header) + header.stored_bytes;
    while (left > 0) {
      iovec* const first = parts[0].iov_len > 0 ? parts : parts + 1;
      const ssize_t written = ::writev(fd, first, first == parts ? 2 : 1);
      if (written < 0) {
        if (errno == EINTR) continue;
        FileError failure = SystemError(path, "write", errno);
        // What is left of this block would be taken for a truncated file; losing the attempt changes nothing.
        if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) failure.reason += " (the last block is truncated)";
        return failure;
      }
      auto done = static_cast<std::size_t>(written);
      left -= done;
      for (iovec& part : parts) {
        const std::size_t of_part = std::min(done, part.iov_len);
        part.iov_base = static_cast<std::byte*>(part.iov_base) + of_part;
        part.iov_len -= of_part;
        done -= of_part;
      }
    }
    bytes += sizeof(header) + header.stored_bytes;
    return std::nullopt;
  }

  std::optional<FileError> AppendBlock(std::span<const TraceEvent> events) {
    TraceBlockHeader header{};
    std::memcpy(header.magic, kTraceBlockMagic, sizeof(header.magic));
    header.version = kTraceVersion;
    header.encoding = static_cast<std::uint32_t>(encoding);
    header.events = static_cast<std::uint32_t>(events.size());
    header.raw_bytes = static_cast<std::uint32_t>(events.size() * kEventBytes);
    header.number = number;
    columns.resize(header.raw_bytes);
    EventsToColumns(events, columns.data());
    const std::byte* payload = columns.data();
    header.stored_bytes = header.raw_bytes;
    if (encoding == TraceEncoding::kZstd) {
      compressed.resize(ZSTD_compressBound(header.raw_bytes));
      const std::size_t stored =
          ZSTD_compressCCtx(context.get(), compressed.data(), compressed.size(), columns.data(), columns.size(), 1);
      if (ZSTD_isError(stored)) {  // out of memory: the raw form needs none
        header.encoding = static_cast<std::uint32_t>(TraceEncoding::kRaw);
      } else {
        header.stored_bytes = static_cast<std::uint32_t>(stored);
        payload = compressed.data();
      }
    }
    return Finish(&header, payload);
  }

  std::optional<FileError> AppendNamesBlock(const std::string& text, std::uint32_t lines) {
    TraceBlockHeader header{};
    std::memcpy(header.magic, kTraceBlockMagic, sizeof(header.magic));
    header.version = kTraceVersion;
    header.encoding = kNamesEncoding;
    header.events = lines;
    header.raw_bytes = static_cast<std::uint32_t>(text.size());
    header.number = number;
    compressed.resize(ZSTD_compressBound(text.size()));
    const std::size_t stored =
        ZSTD_compressCCtx(context.get(), compressed.data(), compressed.size(), text.data(), text.size(), 1);
    if (ZSTD_isError(stored)) return std::nullopt;  // out of memory: the events are worth more than their names
    header.stored_bytes = static_cast<std::uint32_t>(stored);
    return Finish(&header, compressed.data());
  }

  // Writes the block whose header lacks only its checksum.
  std::optional<FileError> Finish(TraceBlockHeader* header, const std::byte* payload) {
    header->checksum = ChecksumOf(hash.get(), *header, payload);
    if (auto failure = Write(*header, payload)) return failure;
    ++number;
    return std::nullopt;
  }
};

std::optional<FileError> FindTraceObstacle(const std::string& path) {
  struct stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
  if (!is_there) return FindObstacle(path, kTraceBlockMagic);
  if (::access(path.c_str(), W_OK) != 0) return SystemError(path, "open", errno);
  if (HoldsSomethingElse(path, kTraceBlockMagic)) return SomethingElse(path);
  return std::nullopt;
}

TraceWriter::TraceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceWriter::~TraceWriter() = default;

Result<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& path, TraceEncoding encoding) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->encoding = encoding;
  if (HoldsSomethingElse(path, kTraceBlockMagic)) return SomethingElse(path);
  state->fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (state->fd < 0) return SystemError(path, "create", errno);
  // File systems without locks do without.
  if (::flock(state->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return FileError{FileError::Kind::kIo, path, "",
                     "another process records into it; with %p or %r in its name each has its own"};
  struct stat status {};
  if (::fstat(state->fd, &status) == 0 && S_ISREG(status.st_mode) && ::ftruncate(state->fd, 0) != 0)
    return SystemError(path, "truncate", errno);
  return std::unique_ptr<TraceWriter>(new TraceWriter(std::move(state)));
}

std::optional<FileError> TraceWriter::Append(std::span<const TraceEvent> events) {
  while (!events.empty() && !state_->error) {
    const std::size_t count = std::min(events.size(), kMaxBlockEvents);
    state_->error = state_->AppendBlock(events.first(count));
    events = events.subspan(count);
  }
  return state_->error;
}

std::optional<FileError> TraceWriter::AppendNames(std::span<const CallSiteFrames> call_sites) {
  std::string text;
  std::uint32_t lines = 0;
  const auto write = [&] {
    if (lines != 0 && !state_->error) state_->error = state_->AppendNamesBlock(text, lines);
    text.clear();
    lines = 0;
  };
  for (const CallSiteFrames& site : call_sites) {
    const std::string line = NamesToLine(site);
    if (line.size() > kMaxNamesBytes) continue;
    if (text.size() + line.size() > kMaxNamesBytes || lines == kMaxBlockEvents) write();
    text += line;
    ++lines;
  }
  write();
  return state_->error;
}

}  // namespace stalloc::planner
