// ImportRmmLog, declared in tools/import.h: the CSV that RMM's logging resource adaptor writes, one line an event:
//
//   Thread,Time,Action,Pointer,Size,Stream
//   4711,10:16:54.123456,allocate,0x7f0000000000,1048576,0x2
//
// Time is of the day and may pass midnight; between its seconds and microseconds stands a point or a colon. Actions but
// "allocate" and "free" ("allocate failure") move no memory.
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "planner/unpacked_file.h"
#include "tools/import.h"
#include "tools/load.h"

namespace stalloc::tools {
namespace {

constexpr std::string_view kHeader = "Thread,Time,Action,Pointer,Size,Stream";

std::optional<std::uint64_t> Number(std::string_view text, int base = 10) {
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

// Of HH:MM:SS.uuuuuu, in nanoseconds since midnight.
std::optional<std::uint64_t> TimeOfDay(std::string_view text) {
  if (text.size() != 15) return std::nullopt;
  const auto hours = Number(text.substr(0, 2));
  const auto minutes = Number(text.substr(3, 2));
  const auto seconds = Number(text.substr(6, 2));
  const auto micros = Number(text.substr(9, 6));
  if (!hours || !minutes || !seconds || !micros) return std::nullopt;
  return (((*hours * 60 + *minutes) * 60 + *seconds) * 1'000'000 + *micros) * 1000;
}

class Log {
 public:
  explicit Log(const std::string& path) : path_(path) {}

  void ReadLine(std::string_view line) {
    ++line_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line_ == 1) {
      if (line != kHeader) Refuse("the first line is not RMM's \"" + std::string(kHeader) + "\"");
      return;
    }
    if (line.empty()) return;
    std::array<std::string_view, 6> fields;
    std::size_t count = 0;
    for (std::string_view rest = line; count < fields.size(); ++count) {
      const std::size_t comma = rest.find(',');
      fields[count] = rest.substr(0, comma);
      if (comma == std::string_view::npos) {
        ++count;
        break;
      }
      rest.remove_prefix(comma + 1);
    }
    if (count != fields.size()) Refuse("6 fields are expected");
    ReadEvent(fields);
  }

  planner::Trace Take() { return builder_.Take(); }
  std::size_t lines() const { return line_; }

 private:
  [[noreturn]] void Refuse(const std::string& reason) const {
    throw Failure(ExitCode::kBadInput, path_ + ": line " + std::to_string(line_) + ": " + reason);
  }

  void ReadEvent(const std::array<std::string_view, 6>& fields) {
    const auto& [thread, time, action, pointer, size, stream] = fields;
    if (action != "allocate" && action != "free") return;
    const auto address = Number(pointer, 16);
    const auto bytes = Number(size);
    const auto handle = Number(stream);
    const auto moment = TimeOfDay(time);
    if (!address || !bytes || !handle || !moment) Refuse("a time, a pointer, a size or a stream cannot be read");
    if (*moment + kHalfADay < last_ns_) days_ns_ += 2 * kHalfADay;
    last_ns_ = *moment;
    const std::uint64_t time_ns = days_ns_ + *moment;
    const std::uint32_t ordinal =
        threads_.try_emplace(std::string(thread), static_cast<std::uint32_t>(threads_.size())).first->second;
    if (action == "allocate") {
      builder_.Allocate(0, *address, *bytes, *handle, ordinal, 0, time_ns);
    } else {
      builder_.Free(0, *address, *bytes, *handle, ordinal, time_ns);
    }
  }

  static constexpr std::uint64_t kHalfADay = 12ull * 3600 * 1'000'000'000;

  const std::string& path_;
  std::size_t line_ = 0;
  std::uint64_t last_ns_ = 0;
  std::uint64_t days_ns_ = 0;
  std::unordered_map<std::string, std::uint32_t> threads_;
  TraceBuilder builder_;
};

}  // namespace

planner::Trace ImportRmmLog(const std::string& path) {
  const auto file = Take(planner::UnpackedFile::Open(path));
  Log log(path);
  std::string pending;
  std::vector<char> part(std::size_t{1} << 20);
  for (;;) {
    const std::size_t got = Take(file->Read(part.data(), part.size()));
    pending.append(part.data(), got);
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1)
      log.ReadLine(std::string_view(pending).substr(begin, end - begin));
    pending.erase(0, begin);
    if (got == 0) break;
  }
  if (!pending.empty()) log.ReadLine(pending);
  return log.Take();
}

}  // namespace stalloc::tools
