#include "runtime/device/lifetime_predictor.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace stalloc::runtime {

LifetimePredictor::Path LifetimePredictor::Follow(Granule granules) noexcept {
  const auto octave = static_cast<unsigned>(std::bit_width(granules));  // below 64
  path_ = path_ << 8 | std::min(std::exchange(frees_, 0), kMostFrees) << 6 | octave;
  return path_;
}

LifetimePredictor::Place LifetimePredictor::PlaceOf(Path path, std::size_t table) noexcept {
  const Path known = path & (~Path{0} >> (64 - 8 * (kHistories[table] + 1)));
  // Multiplicative hashing, by the golden ratio: the high bits depend on all of the path.
  const std::uint64_t hash = (known + 1) * 0x9e3779b97f4a7c15ull;
  return {static_cast<std::size_t>(hash >> 52) % kEntries, static_cast<std::uint16_t>((hash >> 36) | 1)};
}

std::size_t LifetimePredictor::Provider(Path path) const noexcept {
  for (std::size_t table = kHistories.size(); table-- > 0;) {
    const Place place = PlaceOf(path, table);
    if ((*tables_)[table][place.entry].tag == place.tag) return table;
  }
  return kHistories.size();
}

std::optional<bool> LifetimePredictor::Lasts(Path path) const noexcept {
  const std::size_t provider = Provider(path);
  if (provider == kHistories.size()) return std::nullopt;
  return (*tables_)[provider][PlaceOf(path, provider).entry].counter >= 0;
}

void LifetimePredictor::Learn(Path path, bool guessed, bool lasted) noexcept {
  const std::size_t provider = Provider(path);
  const bool known = provider != kHistories.size();
  if (known) {
    std::int8_t& counter = (*tables_)[provider][PlaceOf(path, provider).entry].counter;
    counter = lasted ? std::min<std::int8_t>(static_cast<std::int8_t>(counter + 1), kSurely)
                     : std::max<std::int8_t>(static_cast<std::int8_t>(counter - 1), kSurelyNot);
    if (guessed == lasted) return;
  }
  // It takes a longer path to tell this request from others.
  const std::size_t last = known ? kHistories.size() : 1;
  for (std::size_t table = known ? provider + 1 : 0; table < last; ++table) {
    const Place place = PlaceOf(path, table);
    (*tables_)[table][place.entry] = {place.tag, static_cast<std::int8_t>(lasted ? 0 : -1)};
  }
}

}  // namespace stalloc::runtime
