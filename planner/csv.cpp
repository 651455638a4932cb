#include "planner/csv.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "planner/problem_check.h"
#include "planner/whole_file.h"

namespace stalloc::planner {
namespace {

constexpr std::size_t kMaxLineBytes = 4096;
constexpr std::size_t kMaxRows = std::numeric_limits<std::int32_t>::max();

// Lines of a file that may be compressed.
class LineReader {
 public:
  static Result<std::unique_ptr<LineReader>> Open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
      return SystemError(path, "open", errno);
    }
    gzFile file = ::gzdopen(fd, "rb");
    if (file == nullptr) {
      ::close(fd);
      return FileError{FileError::Kind::kIo, path, "", "open: out of memory"};
    }
    ::gzbuffer(file, 256 * 1024);
    return std::unique_ptr<LineReader>(new LineReader(path, file));
  }

  ~LineReader() { ::gzclose(file_); }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line without its end, or nullopt at the end of the file. The text lives until the next call.
  Result<std::optional<std::string_view>> Next() {
    ++line_;
    errno = 0;
    if (::gzgets(file_, buffer_.data(), static_cast<int>(buffer_.size())) == nullptr) {
      if (auto failure = Failure()) return *failure;
      return std::optional<std::string_view>();
    }
    std::string_view text(buffer_.data());
    // A line that has no end is the last, or was to be longer.
    if (!text.ends_with('\n'))
      if (auto failure = Failure()) return *failure;
    if (text.size() + 1 == buffer_.size()) return Error("line is longer than " + std::to_string(kMaxLineBytes));
    // gzgets ends at a zero byte as far as a C string goes: a line without its end that is not the last one has one.
    if (!text.ends_with('\n') && !::gzeof(file_)) return Error("zero byte in the text");
    while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
    return std::optional<std::string_view>(text);
  }

  FileError Error(std::string reason) const {
    return {FileError::Kind::kBadInput, path_, "line " + std::to_string(line_), std::move(reason)};
  }

 private:
  LineReader(const std::string& path, gzFile file) : path_(path), file_(file) {}

  // What went wrong when the file was last read; nullopt: nothing.
  std::optional<FileError> Failure() const {
    int code = Z_OK;
    std::string_view reason = ::gzerror(file_, &code);
    if (code == Z_OK || code == Z_STREAM_END) return std::nullopt;
    if (code == Z_ERRNO) return SystemError(path_, "read", errno);
    if (const std::size_t name = reason.find(">: "); name != std::string_view::npos) reason.remove_prefix(name + 3);
    return Error("gzip: " + std::string(reason));
  }

  std::string path_;
  gzFile file_;
  std::size_t line_ = 0;
  std::array<char, kMaxLineBytes + 2> buffer_;
};

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> Fields(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t comma = line.find(',');
    fields.push_back(Trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

// One row after another, its fields in the order of the columns that were asked for.
class Table {
 public:
  // `optional_from`: columns from that index on may be missing; their fields are empty then.
  static Result<Table> Open(const std::string& path, std::span<const char* const> columns, std::size_t optional_from) {
    auto lines = LineReader::Open(path);
    if (!lines) return lines.error();
    Table table(std::move(*lines));
    auto header = table.lines_->Next();
    if (!header) return header.error();
    if (!header->has_value()) return table.Error("empty file: no header line");
    std::string_view text = **header;
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    const std::vector<std::string_view> names = Fields(text);
    table.width_ = names.size();
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const auto found = std::find(names.begin(), names.end(), columns[c]);
      if (found == names.end() && c < optional_from) {
        return table.Error(std::string("missing column \"") + columns[c] + '"');
      }
      table.columns_.push_back(found == names.end() ? kMissing : static_cast<std::size_t>(found - names.begin()));
    }
    if (std::find(names.begin(), names.end(), "alignment") != names.end()) {
      return table.Error("column \"alignment\" is not supported: requests have one alignment in common");
    }
    return table;
  }

  // Fills `row`; false at the end. Empty lines are skipped.
  Result<bool> Next(std::vector<std::string_view>& row) {
    for (;;) {
      auto line = lines_->Next();
      if (!line) return line.error();
      if (!line->has_value()) return false;
      if (Trimmed(**line).empty()) continue;
      if (++rows_ > kMaxRows) return Error("more than " + std::to_string(kMaxRows) + " rows");
      const std::vector<std::string_view> fields = Fields(**line);
      if (fields.size() != width_) {
        return Error(std::to_string(fields.size()) + " fields where the header has " + std::to_string(width_));
      }
      row.clear();
      for (const std::size_t column : columns_) row.push_back(column == kMissing ? std::string_view() : fields[column]);
      return true;
    }
  }

  FileError Error(std::string reason) const { return lines_->Error(std::move(reason)); }

 private:
  static constexpr std::size_t kMissing = static_cast<std::size_t>(-1);

  explicit Table(std::unique_ptr<LineReader> lines) : lines_(std::move(lines)) {}

  std::unique_ptr<LineReader> lines_;
  std::vector<std::size_t> columns_;
  std::size_t width_ = 0;
  std::size_t rows_ = 0;
};

// Empty on success, otherwise the reason.
template <typename Number>
std::string Parse(std::string_view text, const char* name, Number* number) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (code == std::errc::result_out_of_range) return std::string(name) + " does not fit into 64 bits";
  if (code == std::errc() && end == text.data() + text.size()) return {};
  if (std::is_unsigned_v<Number> && text.starts_with('-')) return std::string(name) + " is negative";
  return std::string(name) + " is not a whole number: \"" + std::string(text.substr(0, 40)) + '"';
}

std::string ParseSize(std::string_view text, Bytes* size) {
  std::string reason = Parse(text, "size", size);
  if (reason.empty() && *size == 0) return "size is zero";
  return reason;
}

std::string Quoted(std::string_view id) { return "id \"" + std::string(id.substr(0, 80)) + '"'; }

// Runs a reader and turns running out of memory into a refusal that names the place.
template <typename Value, typename Read>
Result<Value> Guarded(const std::string& path, Read read) {
  try {
    return read();
  } catch (const std::bad_alloc&) {
    return FileError{FileError::Kind::kBadInput, path, "", "more rows than memory holds"};
  } catch (const std::length_error&) {
    return FileError{FileError::Kind::kBadInput, path, "", "more rows than memory holds"};
  }
}

}  // namespace

Result<CsvKind> DetectCsv(const std::string& path) {
  auto lines = LineReader::Open(path);
  if (!lines) return lines.error();
  auto header = (*lines)->Next();
  if (!header) return header.error();
  const std::vector<std::string_view> names = Fields(header->value_or(""));
  const auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (has("op")) return CsvKind::kEvents;
  if (has("lower")) return CsvKind::kLifetimes;
  return (*lines)->Error("neither \"op,id,bytes,stream,step\" nor \"id,lower,upper,size\"");
}

Result<Trace> ReadEventCsv(const std::string& path) {
  return Guarded<Trace>(path, [&]() -> Result<Trace> {
    constexpr const char* kColumns[] = {"op", "id", "bytes", "stream", "step"};
    auto table = Table::Open(path, kColumns, 3);
    if (!table) return table.error();
    Trace trace;
    struct Life {
      std::uint64_t block;
      Bytes size_bytes;
      bool live;
    };
    std::unordered_map<std::string, Life> lives;
    std::unordered_map<std::uint64_t, std::uint32_t> streams;
    std::uint64_t blocks = 0;
    std::vector<std::string_view> row;
    for (;;) {
      const auto more = table->Next(row);
      if (!more) return more.error();
      if (!*more) return trace;
      TraceEvent event;
      event.sequence = trace.events.size();
      std::uint64_t stream = 0;
      std::uint32_t step = 0;
      std::string reason = ParseSize(row[2], &event.size_bytes);
      if (reason.empty() && !row[3].empty()) reason = Parse(row[3], "stream", &stream);
      if (reason.empty() && !row[4].empty()) reason = Parse(row[4], "step", &step);
      if (!reason.empty()) return table->Error(std::move(reason));
      const auto found = lives.find(std::string(row[1]));
      if (row[0] == "a") {
        if (found != lives.end() && found->second.live) return table->Error(Quoted(row[1]) + " is allocated twice");
        event.op = TraceEvent::Op::kAllocate;
        event.block = blocks++;
        lives[std::string(row[1])] = {event.block, event.size_bytes, true};
      } else if (row[0] == "f") {
        if (found == lives.end()) return table->Error(Quoted(row[1]) + " is freed but was never allocated");
        if (!found->second.live) return table->Error(Quoted(row[1]) + " is freed twice");
        if (found->second.size_bytes != event.size_bytes) {
          return table->Error(Quoted(row[1]) + " is freed with another size than it was allocated with");
        }
        found->second.live = false;
        event.op = TraceEvent::Op::kFree;
        event.block = found->second.block;
      } else {
        return table->Error("op is neither a (allocated) nor f (freed): \"" + std::string(row[0].substr(0, 40)) + '"');
      }
      event.stream = streams.try_emplace(stream, static_cast<std::uint32_t>(streams.size())).first->second;
      event.flags = TraceEvent::kHasStream;
      trace.events.push_back(event);
      if (!row[4].empty()) trace.steps.push_back(step);
      if (!trace.steps.empty() && trace.steps.size() != trace.events.size()) return table->Error("step is missing");
    }
  });
}

Result<LifetimeTable> ReadLifetimeCsv(const std::string& path) {
  return Guarded<LifetimeTable>(path, [&]() -> Result<LifetimeTable> {
    constexpr const char* kColumns[] = {"id", "lower", "upper", "size"};
    auto table = Table::Open(path, kColumns, 4);
    if (!table) return table.error();
    LifetimeTable result;
    std::unordered_set<std::string> seen;
    Bytes total = 0;
    std::vector<std::string_view> row;
    for (;;) {
      const auto more = table->Next(row);
      if (!more) return more.error();
      if (!*more) return result;
      Request request;
      std::string reason = Parse(row[1], "lower", &request.begin);
      if (reason.empty()) reason = Parse(row[2], "upper", &request.end);
      if (reason.empty()) reason = ParseSize(row[3], &request.size_bytes);
      Time length = 0;
      if (reason.empty() && request.end <= request.begin) reason = "ends before it begins";
      if (reason.empty() && __builtin_sub_overflow(request.end, request.begin, &length))
        reason = "lifetime is too long";
      if (reason.empty() && request.size_bytes > kMaxTotalBytes - total) {
        reason = "sizes add up to more than 2^62 bytes";
      }
      if (reason.empty() && !seen.insert(std::string(row[0])).second) reason = Quoted(row[0]) + " is given twice";
      if (!reason.empty()) return table->Error(std::move(reason));
      total += request.size_bytes;
      result.problem.requests.push_back(request);
      result.ids.emplace_back(row[0]);
    }
  });
}

std::optional<FileError> WritePlacementCsv(const std::string& path, const Problem& problem,
                                           const std::vector<std::string>& ids, const Placement& placement,
                                           bool overwrite) {
  std::string text = "id,lower,upper,size,offset\n";
  for (std::size_t i = 0; i < problem.requests.size(); ++i) {
    const Request& request = problem.requests[i];
    text += (ids.empty() ? std::to_string(i) : ids[i]) + ',' + std::to_string(request.begin) + ',' +
            std::to_string(request.end) + ',' + std::to_string(request.size_bytes) + ',' +
            std::to_string(placement.offsets[i]) + '\n';
  }
  return WriteWholeFile(path, std::as_bytes(std::span(text)), overwrite);
}

}  // namespace stalloc::planner
