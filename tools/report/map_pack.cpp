// Pack, declared in tools/report/map.h.
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "tools/failure.h"
#include "tools/report/map.h"

namespace stalloc::tools::report {
namespace {

constexpr std::uint32_t kPlannedBit = 0x80000000u;

class Columns {
 public:
  void Add(std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) bytes_.push_back(static_cast<unsigned char>(value >> shift));
  }
  void Add(std::span<const unsigned char> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  template <typename Items, typename Member>
  void AddColumn(const Items& items, const Member& member) {
    for (const auto& item : items) Add(static_cast<std::uint32_t>(member(item)));
  }

  std::vector<unsigned char> Compressed() const {
    uLongf size = ::compressBound(static_cast<uLong>(bytes_.size()));
    std::vector<unsigned char> packed(size);
    if (::compress2(packed.data(), &size, bytes_.data(), static_cast<uLong>(bytes_.size()), 9) != Z_OK)
      throw Failure(ExitCode::kInternal, "the map cannot be compressed: out of memory");
    packed.resize(size);
    return packed;
  }

 private:
  std::vector<unsigned char> bytes_;
};

std::string Base64(std::span<const unsigned char> bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? bytes[i + k] : 0u);
    for (std::size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

// How much of each cell of the plane blocks cover: planned, online.
class Averages {
 public:
  Averages(std::size_t events, std::uint32_t granules)
      : events_per_column_(std::max<double>(1e-9, static_cast<double>(events) / PackedMap::kColumns)),
        granules_per_row_(std::max<double>(1e-9, static_cast<double>(granules) / PackedMap::kRows)) {}

  void Add(const BlockRectangle& block) {
    std::vector<float>& cells = block.planned ? planned_ : online_;
    ForEachPart(block.begin, block.end, events_per_column_, PackedMap::kColumns,
                [&](std::uint32_t column, double wide) {
                  ForEachPart(block.address, std::uint64_t{block.address} + block.length, granules_per_row_,
                              PackedMap::kRows, [&](std::uint32_t row, double high) {
                                cells[std::size_t{column} * PackedMap::kRows + row] += static_cast<float>(wide * high);
                              });
                });
  }

  std::vector<unsigned char> Planned() const { return AsBytes(planned_); }
  std::vector<unsigned char> Online() const { return AsBytes(online_); }

 private:
  // Calls visit(cell, the share of it that [begin, end) covers).
  template <typename Visit>
  static void ForEachPart(std::uint64_t begin, std::uint64_t end, double per_cell, std::uint32_t cells, Visit visit) {
    const double from = static_cast<double>(begin) / per_cell;
    const double to = static_cast<double>(end) / per_cell;
    const auto last = std::min<std::uint32_t>(cells, static_cast<std::uint32_t>(std::ceil(to)));
    for (auto cell = static_cast<std::uint32_t>(from); cell < last; ++cell)
      visit(cell, std::min(to, cell + 1.0) - std::max<double>(from, cell));
  }

  static std::vector<unsigned char> AsBytes(const std::vector<float>& shares) {
    std::vector<unsigned char> bytes;
    bytes.reserve(shares.size());
    for (const float share : shares)
      bytes.push_back(static_cast<unsigned char>(std::lround(std::clamp(share, 0.0f, 1.0f) * 255)));
    return bytes;
  }

  const double events_per_column_;
  const double granules_per_row_;
  std::vector<float> planned_ = std::vector<float>(std::size_t{PackedMap::kColumns} * PackedMap::kRows);
  std::vector<float> online_ = std::vector<float>(std::size_t{PackedMap::kColumns} * PackedMap::kRows);
};

bool Touches(const Rectangle& block, std::uint64_t first, std::uint64_t last) {
  return block.begin <= last && block.end >= first;
}

// How far from the peak all blocks can be kept one by one.
std::uint64_t Reach(const std::vector<BlockRectangle>& blocks, std::uint64_t events, std::uint64_t peak,
                    std::size_t most) {
  if (blocks.size() <= most) return events;
  std::uint64_t low = 0;
  std::uint64_t high = events;
  while (low < high) {
    const std::uint64_t reach = (low + high + 1) / 2;
    const auto count = std::count_if(blocks.begin(), blocks.end(), [&](const BlockRectangle& block) {
      return Touches(block, peak > reach ? peak - reach : 0, peak + reach);
    });
    if (static_cast<std::size_t>(count) <= most) {
      low = reach;
    } else {
      high = reach - 1;
    }
  }
  return low;
}

}  // namespace

PackedMap Pack(const MapRecorder& map, std::size_t events, std::size_t peak_event, std::size_t most_rectangles) {
  PackedMap packed;
  const std::uint64_t reach = Reach(map.blocks(), events, peak_event, most_rectangles);
  packed.detail_first = static_cast<std::uint32_t>(peak_event > reach ? peak_event - reach : 0);
  packed.detail_last = static_cast<std::uint32_t>(std::min<std::uint64_t>(events, peak_event + reach));
  std::vector<BlockRectangle> kept;
  Averages averages(events, map.granules());
  for (const BlockRectangle& block : map.blocks()) {
    averages.Add(block);
    if (Touches(block, packed.detail_first, packed.detail_last)) kept.push_back(block);
  }
  packed.rectangles = kept.size();
  packed.held = map.held().size();

  Columns columns;
  const auto add_rectangles = [&](const auto& items) {
    columns.AddColumn(items, [](const Rectangle& item) { return item.begin; });
    columns.AddColumn(items, [](const Rectangle& item) { return item.end; });
    columns.AddColumn(items, [](const Rectangle& item) { return item.address; });
    columns.AddColumn(items, [](const Rectangle& item) { return item.length; });
  };
  add_rectangles(kept);
  columns.AddColumn(kept, [](const BlockRectangle& block) { return block.size_bytes & 0xffffffffu; });
  columns.AddColumn(kept, [](const BlockRectangle& block) { return block.size_bytes >> 32; });
  columns.AddColumn(kept, [](const BlockRectangle& block) { return block.site | (block.planned ? kPlannedBit : 0); });
  add_rectangles(map.held());
  columns.Add(averages.Planned());
  columns.Add(averages.Online());
  packed.base64 = Base64(columns.Compressed());
  return packed;
}

}  // namespace stalloc::tools::report
