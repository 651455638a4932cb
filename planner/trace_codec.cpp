#include "trace_codec.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace stalloc::planner {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are copied as they are");

// Writes one column and returns the place of the next. `kDelta`: differences to the event before, modulo 2^64, which
// compress far better where numbers grow steadily.
template <bool kDelta, typename Field>
std::byte* Put(std::span<const TraceEvent> events, Field TraceEvent::*member, std::byte* out) {
  Field before{};
  for (const TraceEvent& event : events) {
    Field value = event.*member;
    if constexpr (kDelta) {
      const Field now = value;
      value = static_cast<Field>(value - before);
      before = now;
    }
    std::memcpy(out, &value, sizeof(value));
    out += sizeof(value);
  }
  return out;
}

template <bool kDelta, typename Field>
const std::byte* Get(std::span<TraceEvent> events, Field TraceEvent::*member, const std::byte* in) {
  Field before{};
  for (TraceEvent& event : events) {
    Field value;
    std::memcpy(&value, in, sizeof(value));
    in += sizeof(value);
    if constexpr (kDelta) before = value = static_cast<Field>(value + before);
    event.*member = value;
  }
  return in;
}

// The order of the columns is the format: X(member, delta).
#define STALLOC_TRACE_COLUMNS(X) \
  X(op, false)                   \
  X(served, false)               \
  X(device, false)               \
  X(flags, false)                \
  X(stream, false)               \
  X(thread, false)               \
  X(reserved, false)             \
  X(sequence, true)              \
  X(block, true)                 \
  X(size_bytes, false)           \
  X(call_site, false)            \
  X(time_ns, true)

}  // namespace

void EventsToColumns(std::span<const TraceEvent> events, std::byte* columns) {
#define STALLOC_PUT(member, delta) columns = Put<delta>(events, &TraceEvent::member, columns);
  STALLOC_TRACE_COLUMNS(STALLOC_PUT)
#undef STALLOC_PUT
}

std::size_t ColumnsToEvents(const std::byte* columns, std::span<TraceEvent> events) {
#define STALLOC_GET(member, delta) columns = Get<delta>(events, &TraceEvent::member, columns);
  STALLOC_TRACE_COLUMNS(STALLOC_GET)
#undef STALLOC_GET
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto op = static_cast<std::uint8_t>(events[i].op);
    const auto served = static_cast<std::uint8_t>(events[i].served);
    if (op < 1 || op > 4 || served > 3) return i;
  }
  return events.size();
}

std::string NamesToLine(const CallSiteFrames& call_site) {
  char number[20];
  std::snprintf(number, sizeof number, "%016" PRIx64, call_site.call_site);
  std::string line = number;
  for (const std::string& frame : call_site.frames) {
    line += '\t';
    for (const char c : frame) line += c == '\t' || c == '\n' ? ' ' : c;
  }
  return line += '\n';
}

std::optional<CallSiteFrames> LineToNames(std::string_view line) {
  constexpr std::size_t kDigits = 16;
  constexpr std::size_t kMostFrames = 1024;  // far more than any that is written
  CallSiteFrames site;
  if (line.size() < kDigits) return std::nullopt;
  const auto [end, error] = std::from_chars(line.data(), line.data() + kDigits, site.call_site, 16);
  if (error != std::errc{} || end != line.data() + kDigits) return std::nullopt;
  for (line.remove_prefix(kDigits); !line.empty();) {
    if (line.front() != '\t') return std::nullopt;
    line.remove_prefix(1);
    const std::size_t tab = std::min(line.find('\t'), line.size());
    if (site.frames.size() == kMostFrames) return std::nullopt;
    std::string& frame = site.frames.emplace_back(line.substr(0, tab));
    // Nothing in a file from elsewhere may steer the terminal on which it is shown.
    std::replace_if(
        frame.begin(), frame.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
    line.remove_prefix(tab);
  }
  return site;
}

}  // namespace stalloc::planner
