// The format of trace files, version 2: blocks one after another to the end of the file, nothing else. All numbers are
// little-endian. A block is read without any other block.
//
//   byte  0        8       12       16       20       24       28       32        40         48
//         +--------+-------+--------+--------+--------+--------+--------+---------+----------+------------------+
//         | magic  |version|encoding| events | raw    | stored | zero   | number  | checksum | payload          |
//         |stallocT| u32=2 | u32    | u32    | u32    | u32    | u32    | u64     | u64      | of stored bytes  |
//         +--------+-------+--------+--------+--------+--------+--------+---------+----------+------------------+
//
//   encoding   0: the payload is the columns; 1: it is one zstd frame of them
//   events     1 .. 65536;  raw = events * 56;  stored = raw for encoding 0
//   number     of the block in its file, from 0: a missing or repeated block is noticed
//   checksum   XXH3 (64 bit, no seed) of bytes [0, 40) followed by the payload
//
// Columns, each the values of all events of the block, without gaps:
//
//   op u8 | served u8 | device u8 | flags u8 | stream u32 | thread u32 | reserved u32 |
//   sequence u64 d | block u64 d | size_bytes u64 | call_site u64 | time_ns u64 d
//                                                                            d: difference to the event before
//
// Version 1 had requests only (op 1 and 2); it is read as well. One golden file per version is kept in
// tests/planner/golden.
#include "planner/trace_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "planner/whole_file.h"
#include "trace_codec.h"

namespace stalloc::planner {
namespace {

constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kOldestVersion = 1;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t encoding;
  std::uint32_t events;
  std::uint32_t raw_bytes;
  std::uint32_t stored_bytes;
  std::uint32_t zero;
  std::uint64_t number;
  std::uint64_t checksum;
};
static_assert(sizeof(Header) == 48);

struct HashFree {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};
struct CompressFree {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct DecompressFree {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
using HashState = std::unique_ptr<XXH3_state_t, HashFree>;

std::uint64_t Checksum(XXH3_state_t* state, const Header& header, const std::byte* payload) {
  XXH3_64bits_reset(state);
  XXH3_64bits_update(state, &header, offsetof(Header, checksum));
  XXH3_64bits_update(state, payload, header.stored_bytes);
  return XXH3_64bits_digest(state);
}

FileError SystemError(const std::string& path, const char* doing) {
  return {FileError::Kind::kIo, path, "", std::string(doing) + ": " + std::generic_category().message(errno)};
}

}  // namespace

struct TraceWriter::State {
  std::string path;
  int fd = -1;
  TraceEncoding encoding = TraceEncoding::kZstd;
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
  std::optional<FileError> error;
  HashState hash{XXH3_createState()};
  std::unique_ptr<ZSTD_CCtx, CompressFree> context{ZSTD_createCCtx()};
  std::vector<std::byte> columns;
  std::vector<std::byte> compressed;

  ~State() {
    if (fd >= 0) ::close(fd);
  }

  std::optional<FileError> Write(const Header& header, const std::byte* payload) {
    iovec parts[2] = {{const_cast<Header*>(&header), sizeof(header)},
                      {const_cast<std::byte*>(payload), header.stored_bytes}};
    std::size_t left = sizeof(header) + header.stored_bytes;
    while (left > 0) {
      iovec* const first = parts[0].iov_len > 0 ? parts : parts + 1;
      const ssize_t written = ::writev(fd, first, first == parts ? 2 : 1);
      if (written < 0) {
        if (errno == EINTR) continue;
        FileError failure = SystemError(path, "write");
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
    Header header{};
    std::memcpy(header.magic, kTraceBlockMagic, sizeof(header.magic));
    header.version = kVersion;
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
    header.checksum = Checksum(hash.get(), header, payload);
    if (auto failure = Write(header, payload)) return failure;
    ++number;
    return std::nullopt;
  }
};

TraceWriter::TraceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceWriter::~TraceWriter() = default;

Result<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& path, TraceEncoding encoding) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->encoding = encoding;
  if (HoldsSomethingElse(path, kTraceBlockMagic))
    return FileError{FileError::Kind::kBadInput, path, "", "holds something else, and is left as it is"};
  state->fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (state->fd < 0) return SystemError(path, "create");
  // File systems without locks do without.
  if (::flock(state->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return FileError{FileError::Kind::kIo, path, "",
                     "another process records into it; with %p or %r in its name each has its own"};
  struct stat status {};
  if (::fstat(state->fd, &status) == 0 && S_ISREG(status.st_mode) && ::ftruncate(state->fd, 0) != 0)
    return SystemError(path, "truncate");
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

std::uint64_t TraceWriter::BytesWritten() const { return state_->bytes; }

struct TraceReader::State {
  std::string path;
  int fd = -1;
  TraceTail tail = TraceTail::kMustBeWhole;
  bool truncated = false;
  bool ended = false;
  std::uint64_t number = 0;
  std::uint64_t position = 0;  // where the next block begins
  HashState hash{XXH3_createState()};
  std::unique_ptr<ZSTD_DCtx, DecompressFree> context{ZSTD_createDCtx()};
  std::vector<std::byte> stored;
  std::vector<std::byte> columns;

  ~State() {
    if (fd >= 0) ::close(fd);
  }

  FileError Bad(std::uint64_t byte, std::string reason) const {
    return {FileError::Kind::kBadInput, path, "byte " + std::to_string(byte), std::move(reason)};
  }

  // As many bytes as there are, up to `size`.
  Result<std::size_t> Read(void* to, std::size_t size) {
    std::size_t got = 0;
    while (got < size) {
      const ssize_t step = ::read(fd, static_cast<std::byte*>(to) + got, size - got);
      if (step < 0) {
        if (errno == EINTR) continue;
        return SystemError(path, "read");
      }
      if (step == 0) break;
      got += static_cast<std::size_t>(step);
    }
    return got;
  }

  Result<bool> Tail() {
    ended = true;
    truncated = true;
    if (tail == TraceTail::kMayBeTruncated) return false;
    return Bad(position, "truncated: the file ends within this block");
  }

  // Empty if the header may be trusted with an allocation of what it asks for.
  std::string Hostile(const Header& header) const {
    if (std::memcmp(header.magic, kTraceBlockMagic, sizeof(header.magic)) != 0) {
      return position == 0 ? "not a trace file" : "no block begins here";
    }
    if (header.version < kOldestVersion || header.version > kVersion) {
      return "version " + std::to_string(header.version) + ", this program reads versions 1 and 2";
    }
    if (header.encoding > 1) return "unknown encoding " + std::to_string(header.encoding);
    if (header.events == 0 || header.events > TraceWriter::kMaxBlockEvents) return "impossible number of events";
    if (header.raw_bytes != header.events * kEventBytes) return "size does not match the number of events";
    const bool raw = header.encoding == static_cast<std::uint32_t>(TraceEncoding::kRaw);
    if (raw ? header.stored_bytes != header.raw_bytes : header.stored_bytes > ZSTD_compressBound(header.raw_bytes)) {
      return "impossible size";
    }
    if (header.number != number) {
      return "block " + std::to_string(header.number) + " where block " + std::to_string(number) + " belongs";
    }
    return {};
  }

  Result<bool> Next(std::vector<TraceEvent>* events) {
    events->clear();
    if (ended) return false;
    Header header{};
    auto got = Read(&header, sizeof(header));
    if (!got) return got.error();
    if (*got == 0) {
      ended = true;
      return false;
    }
    if (*got < sizeof(header)) {
      const std::size_t magic = std::min(*got, sizeof(header.magic));
      if (std::memcmp(header.magic, kTraceBlockMagic, magic) != 0) {
        return Bad(position, position == 0 ? "not a trace file" : "no block begins here");
      }
      return Tail();
    }
    if (std::string reason = Hostile(header); !reason.empty()) return Bad(position, std::move(reason));
    stored.resize(header.stored_bytes);
    got = Read(stored.data(), stored.size());
    if (!got) return got.error();
    if (*got < stored.size()) return Tail();
    if (Checksum(hash.get(), header, stored.data()) != header.checksum) {
      return Bad(position, "checksum does not match: damaged");
    }
    const std::byte* payload = stored.data();
    if (header.encoding == static_cast<std::uint32_t>(TraceEncoding::kZstd)) {
      columns.resize(header.raw_bytes);
      const std::size_t size =
          ZSTD_decompressDCtx(context.get(), columns.data(), columns.size(), stored.data(), stored.size());
      if (ZSTD_isError(size)) return Bad(position, std::string("zstd: ") + ZSTD_getErrorName(size));
      if (size != header.raw_bytes) return Bad(position, "holds less than it says");
      payload = columns.data();
    }
    events->resize(header.events);
    const std::size_t valid = ColumnsToEvents(payload, *events);
    if (valid != events->size()) return Bad(position, "event " + std::to_string(valid) + " of the block is none");
    position += sizeof(header) + header.stored_bytes;
    ++number;
    return true;
  }
};

TraceReader::TraceReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceReader::~TraceReader() = default;

Result<std::unique_ptr<TraceReader>> TraceReader::Open(const std::string& path, TraceTail tail) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->tail = tail;
  state->fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (state->fd < 0) return SystemError(path, "open");
  return std::unique_ptr<TraceReader>(new TraceReader(std::move(state)));
}

Result<bool> TraceReader::Next(std::vector<TraceEvent>* events) { return state_->Next(events); }

bool TraceReader::Truncated() const { return state_->truncated; }

Result<Trace> ReadTraceFile(const std::string& path, TraceTail tail, bool* truncated) {
  auto reader = TraceReader::Open(path, tail);
  if (!reader) return reader.error();
  Trace trace;
  std::vector<TraceEvent> block;
  for (;;) {
    const auto more = (*reader)->Next(&block);
    if (!more) return more.error();
    if (!*more) break;
    for (const TraceEvent& event : block) {
      if (event.IsRequest()) {
        trace.events.push_back(event);
      } else {
        trace.order.push_back({trace.events.size(), event});
      }
    }
  }
  if (truncated != nullptr) *truncated = (*reader)->Truncated();
  return trace;
}

}  // namespace stalloc::planner
