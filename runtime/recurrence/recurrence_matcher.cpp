// The matcher in step with its pattern: installing one, handing out what is expected, passing the iteration's end.
// What happens out of step is in recurrence_search.cpp.
//
// Under the device's lock, but for Prepare, which alone allocates.
#include <algorithm>
#include <bit>

#include "recurrence/recurrence_prepared.h"
#include "runtime/recurrence/recurrence.h"

namespace stalloc::runtime {

namespace {

// What a match of a size is worth where the size is the only one of its kind, and the most that is taken off for each
// doubling of its frequency. See the scores in recurrence_search.cpp.
constexpr std::int32_t kSizeWeight = 16;
constexpr std::int32_t kMostTakenOff = 8;
constexpr std::int32_t kSiteWeight = 8;

}  // namespace

Matcher::Prepared::Prepared(const Pattern& pattern)
    : used_in(pattern.requests.size(), 0), first_block(pattern.first_block), exact(pattern.exact) {
  entries.reserve(pattern.requests.size());
  std::vector<std::uint64_t> hashes;
  hashes.reserve(pattern.requests.size());
  recurrence::RepeatDistance repeat_distance;
  for (const PatternRequest& request : pattern.requests) {
    Entry entry;
    entry.key = Matcher::Key(request.size_bytes, request.stream);
    entry.call_site = request.call_site;
    entry.size_bytes = request.size_bytes;
    entry.stream = request.stream;
    entry.size_varies = request.size_varies;
    entry.repeat_distance = repeat_distance.Next(entry.key);
    if (!request.size_varies)
      entry.token = SizedToken(entry.key, request.call_site);
    else if (request.call_site != 0)
      entry.token = UnsizedToken(request.stream, request.call_site);
    else
      entry.token = RepeatToken(request.stream, entry.repeat_distance);
    scales |= request.scales;
    has_unnamed |= request.size_varies && request.call_site == 0;
    entries.push_back(entry);
    hashes.push_back(entry.token);
  }
  by_token = recurrence::PositionIndex(hashes);

  for (Entry& entry : entries) {
    const auto often = static_cast<std::uint32_t>(by_token.Find(entry.token).size());
    entry.weight = kSizeWeight - std::min(static_cast<std::int32_t>(std::bit_width(often)) - 1, kMostTakenOff);
    if (entry.call_site != 0) entry.weight += kSiteWeight;
  }

  // A context wraps around: the first requests of an iteration follow the last ones of the iteration before.
  const std::uint32_t count = size();
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint64_t hash = 1;
    for (std::uint32_t back = kContext; back-- > 0 && hash != 0;) {
      const std::uint64_t token = entries[(i + std::uint64_t{kContext} * count - back) % count].token;
      hash = token == 0 ? 0 : recurrence::Mix(hash, token) | 1;
    }
    hashes[i] = hash;
  }
  by_context = recurrence::PositionIndex(hashes);
}

std::uint64_t Matcher::Prepared::TokenOf(std::uint64_t key, std::uint32_t stream, std::uint64_t call_site,
                                         std::uint32_t distance) const noexcept {
  const std::uint64_t sized = SizedToken(key, call_site);
  if (!by_token.Find(sized).empty()) return sized;
  return call_site != 0 ? UnsizedToken(stream, call_site) : RepeatToken(stream, distance);
}

void Matcher::PreparedDeleter::operator()(Prepared* prepared) const noexcept { delete prepared; }

Matcher::PreparedPattern Matcher::Prepare(const Pattern& pattern) {
  if (pattern.requests.empty()) return nullptr;
  return PreparedPattern(new Prepared(pattern));
}

Matcher::Matcher() = default;
Matcher::~Matcher() = default;

Matcher::PreparedPattern Matcher::Install(PreparedPattern pattern, std::uint64_t next_block) noexcept {
  pattern_.swap(pattern);
  cursor_ = 0;
  misses_ = recent_misses_ = 0;
  last_place_ = kNowhere;
  searching_ = false;
  since_jump_ = 1u << 16;
  epoch_ = 1;
  history_length_ = 0;
  iterations_ = 0;
  if (pattern_ != nullptr) {
    std::fill(pattern_->used_in.begin(), pattern_->used_in.end(), 0);
    if (next_block != kUnknownBlock && next_block >= pattern_->first_block)
      cursor_ = static_cast<std::uint32_t>((next_block - pattern_->first_block) % pattern_->size());
    // Numbers of requests that vary make that a guess.
    if (!pattern_->exact) BeginSearch(static_cast<std::int32_t>(cursor_));
  }
  Aim();
  return pattern;
}

// Publishes the request at the cursor as the one expected. While the place is searched for none is: every request's
// call site helps then.
void Matcher::Aim() noexcept {
  std::uint64_t key = kNoKey;
  if (pattern_ != nullptr && !searching_) {
    const Prepared::Entry& entry = pattern_->entries[cursor_];
    if (!entry.size_varies && entry.key != kNeverExpected) key = entry.key;
    expected_site_ = entry.call_site;
  }
  expected_ = key;
}

std::uint64_t Matcher::CallSiteOf(std::int32_t index) const noexcept {
  return pattern_->entries[static_cast<std::size_t>(index)].call_site;
}

std::int32_t Matcher::TakeExpected() noexcept { return Take(cursor_, pattern_->entries[cursor_].key); }

// Hands out `position` and goes on to the first request behind it that is still to come.
std::int32_t Matcher::Take(std::uint32_t position, std::uint64_t key) noexcept {
  Prepared& pattern = *pattern_;
  pattern.used_in[position] = epoch_;
  Remember(pattern.entries[position].token, key);
  misses_ = 0;
  cursor_ = position + 1;
  while (cursor_ < pattern.size() && pattern.used_in[cursor_] == epoch_) ++cursor_;
  if (cursor_ == pattern.size()) CloseIteration();
  Aim();
  return static_cast<std::int32_t>(position);
}

void Matcher::CloseIteration() noexcept {
  cursor_ = 0;
  base_ -= static_cast<std::int32_t>(pattern_->size());
  if (last_place_ != kNowhere) last_place_ -= static_cast<std::int32_t>(pattern_->size());
  ++epoch_;
  ++iterations_;
}

void Matcher::Remember(std::uint64_t token, std::uint64_t key) noexcept {
  history_[history_length_ % kHistory] = token;
  recent_keys_[history_length_ % kHistory] = key;
  ++history_length_;
}

}  // namespace stalloc::runtime
