// ReadTrace and ReadTraceFile, declared in planner/trace_file.h; trace_block.h has the format.
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "planner/trace_file.h"
#include "trace_block.h"
#include "trace_codec.h"

namespace stalloc::planner {
namespace {

using Frames = decltype(Trace::frames);

struct DecompressFree {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// The blocks of a trace, one after another.
class BlockReader {
 public:
  BlockReader(const std::string& path, const ByteSource& source, TraceTail tail)
      : path_(path), source_(source), tail_(tail) {}

  // Replaces *events by the next block's, or adds its names to *frames. false: the end.
  Result<bool> Next(std::vector<TraceEvent>* events, Frames* frames) {
    events->clear();
    TraceBlockHeader header{};
    auto got = Read(&header, sizeof(header));
    if (!got) return got.error();
    if (*got == 0) return false;
    if (*got < sizeof(header)) {
      const std::size_t magic = std::min(*got, sizeof(header.magic));
      if (std::memcmp(header.magic, kTraceBlockMagic, magic) != 0) {
        return Bad(NoBlock());
      }
      return Tail();
    }
    if (std::string reason = Hostile(header); !reason.empty()) return Bad(std::move(reason));
    stored_.resize(header.stored_bytes);
    got = Read(stored_.data(), stored_.size());
    if (!got) return got.error();
    if (*got < stored_.size()) return Tail();
    if (ChecksumOf(hash_.get(), header, stored_.data()) != header.checksum) {
      return Bad("checksum does not match: damaged");
    }
    const std::byte* payload = stored_.data();
    if (header.encoding != static_cast<std::uint32_t>(TraceEncoding::kRaw)) {
      columns_.resize(header.raw_bytes);
      const std::size_t size =
          ZSTD_decompressDCtx(context_.get(), columns_.data(), columns_.size(), stored_.data(), stored_.size());
      if (ZSTD_isError(size)) return Bad(std::string("zstd: ") + ZSTD_getErrorName(size));
      if (size != header.raw_bytes) return Bad("holds less than it says");
      payload = columns_.data();
    }
    if (header.encoding == kNamesEncoding) {
      if (std::string reason = TakeNames(header.events, frames); !reason.empty()) return Bad(std::move(reason));
    } else {
      events->resize(header.events);
      const std::size_t valid = ColumnsToEvents(payload, *events);
      if (valid != events->size()) return Bad("event " + std::to_string(valid) + " of the block is none");
    }
    position_ += sizeof(header) + header.stored_bytes;
    ++number_;
    return true;
  }

 private:
  FileError Bad(std::string reason) const {
    return {FileError::Kind::kBadInput, path_, "byte " + std::to_string(position_), std::move(reason)};
  }

  // Adds the names that are in columns_; returns what is wrong with them, or nothing.
  std::string TakeNames(std::uint32_t lines, Frames* frames) {
    std::string_view text(reinterpret_cast<const char*>(columns_.data()), columns_.size());
    for (std::uint32_t k = 0; k < lines; ++k) {
      const std::size_t end = text.find('\n');
      std::optional<CallSiteFrames> site;
      if (end != std::string_view::npos) site = LineToNames(text.substr(0, end));
      if (!site) return "name " + std::to_string(k) + " of the block is none";
      text.remove_prefix(end + 1);
      frames->insert_or_assign(site->call_site, std::move(site->frames));
    }
    return text.empty() ? "" : "more names than it says";
  }

  const char* NoBlock() const { return position_ == 0 ? "not a trace file" : "no block begins here"; }

  // As many bytes as there are, up to `size`.
  Result<std::size_t> Read(void* to, std::size_t size) {
    std::size_t got = 0;
    while (got < size) {
      const Result<std::size_t> step = source_(static_cast<std::byte*>(to) + got, size - got);
      if (!step) return step.error();
      if (*step == 0) break;
      got += *step;
    }
    return got;
  }

  Result<bool> Tail() {
    if (tail_ == TraceTail::kMayBeTruncated) return false;
    return Bad("truncated: the file ends within this block");
  }

  // Empty if the header may be trusted with an allocation of what it asks for.
  std::string Hostile(const TraceBlockHeader& header) const {
    if (std::memcmp(header.magic, kTraceBlockMagic, sizeof(header.magic)) != 0) return NoBlock();
    if (header.version < kOldestTraceVersion || header.version > kTraceVersion) {
      return "version " + std::to_string(header.version) + ", this program reads versions 1 to " +
             std::to_string(kTraceVersion);
    }
    const bool names = header.encoding == kNamesEncoding && header.version >= kFirstVersionWithNames;
    if (header.encoding > 1 && !names) return "unknown encoding " + std::to_string(header.encoding);
    if (header.events == 0 || header.events > TraceWriter::kMaxBlockEvents) return "impossible number of events";
    if (names ? header.raw_bytes > kMaxNamesBytes : header.raw_bytes != header.events * kEventBytes)
      return "size does not match the number of events";
    const bool raw = header.encoding == static_cast<std::uint32_t>(TraceEncoding::kRaw);
    if (raw ? header.stored_bytes != header.raw_bytes : header.stored_bytes > ZSTD_compressBound(header.raw_bytes)) {
      return "impossible size";
    }
    if (header.number != number_) {
      return "block " + std::to_string(header.number) + " where block " + std::to_string(number_) + " belongs";
    }
    return {};
  }

  const std::string path_;
  const ByteSource& source_;
  const TraceTail tail_;
  std::uint64_t number_ = 0;
  std::uint64_t position_ = 0;  // where the next block begins
  HashState hash_{XXH3_createState()};
  std::unique_ptr<ZSTD_DCtx, DecompressFree> context_{ZSTD_createDCtx()};
  std::vector<std::byte> stored_;
  std::vector<std::byte> columns_;
};

}  // namespace

Result<Trace> ReadTrace(const std::string& path, const ByteSource& source, TraceTail tail) {
  BlockReader reader(path, source, tail);
  Trace trace;
  std::vector<TraceEvent> block;
  for (;;) {
    const auto more = reader.Next(&block, &trace.frames);
    if (!more) return more.error();
    if (!*more) return trace;
    for (const TraceEvent& event : block) {
      if (event.IsRequest()) {
        trace.events.push_back(event);
      } else {
        trace.order.push_back({trace.events.size(), event});
      }
    }
  }
}

Result<Trace> ReadTraceFile(const std::string& path, TraceTail tail) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError(path, "open", errno);
  auto trace = ReadTrace(
      path,
      [&](void* to, std::size_t size) -> Result<std::size_t> {
        ssize_t got = 0;
        do got = ::read(fd, to, size);
        while (got < 0 && errno == EINTR);
        if (got < 0) return SystemError(path, "read", errno);
        return static_cast<std::size_t>(got);
      },
      tail);
  ::close(fd);
  return trace;
}

}  // namespace stalloc::planner
