// The matcher out of step: a request came that is not the expected one.
//
// It may be inserted (the expected one still comes), changed (it stands for the expected one), in another order, or
// others are missing before it; or the program does something else for a while. One request cannot tell these apart, so
// the further away a place is, the more of the preceding requests must fit it too:
//
//     place                                    must fit
//     the cursor, or where the last jump left  the request
//     cursor + misses (each was a change)      the request
//     up to kNear ahead                        the request
//     up to kFar ahead, kBack back             the request and the one before it
//     anywhere                                 the request and the three before it; most context wins, then the nearest
//
// Requests already handed out in this iteration are no places: a mistaken jump costs what it skipped only until the
// cursor has gone back, and no request is handed out twice.
//
// Under the device's lock; never allocates or throws. A search looks at a bounded number of places.
#include <algorithm>

#include "recurrence_prepared.h"
#include "runtime/recurrence.h"

namespace stalloc::runtime {

namespace {

constexpr std::uint32_t kNear = 8;
constexpr std::uint32_t kFar = 512;
constexpr std::uint32_t kBack = 64;
constexpr std::uint32_t kChangesInARow = 64;
constexpr std::uint32_t kLostAfter = 16;         // misses, after which one request alone proves nothing
constexpr std::uint32_t kResumeFor = 3;          // requests
constexpr std::uint32_t kCandidates = 64;        // places looked at
constexpr std::uint64_t kVaryingSizeRatio = 16;  // without call sites: how far a varying size may lie from the example
constexpr std::uint32_t kDriftAfterIterations = 4;  // without passing the iteration's end

}  // namespace

struct Matcher::Request {
  std::uint64_t key;
  std::uint64_t size_bytes;
  std::uint64_t call_site;
  std::uint64_t token;  // its own name in a context
  std::uint32_t stream;
};

struct Matcher::Place {
  std::uint32_t position;
  bool next_iteration;
  bool may_be_wrong;  // remember where we came from
};

bool Matcher::Unused(std::uint32_t position) const noexcept { return pattern_->used_in[position] != epoch_; }

bool Matcher::Accepts(std::uint32_t position, const Request& request) const noexcept {
  const Prepared::Entry& entry = pattern_->entries[position];
  if (!entry.size_varies)
    return entry.key == request.key && entry.key != kNever - 1 &&
           (entry.call_site == request.call_site || request.call_site == 0 || entry.call_site == 0);
  if (entry.stream != request.stream) return false;
  if (entry.call_site != 0 || request.call_site != 0) return entry.call_site == request.call_site;
  return entry.size_bytes <= request.size_bytes * kVaryingSizeRatio &&
         request.size_bytes <= entry.size_bytes * kVaryingSizeRatio;
}

// How many of the last requests fit the pattern before and up to `position`. Requests that only their place tells fit
// anything, and count for nothing.
std::uint32_t Matcher::ContextLength(std::uint32_t position) const noexcept {
  const std::uint32_t known = std::min(history_length_, kHistory);
  std::uint32_t fits = 0;
  for (std::uint32_t back = 0; back < known; ++back) {
    const std::uint64_t token = pattern_->entries[position].token;
    const std::uint64_t seen = history_[(history_length_ - 1 - back) % kHistory];
    if (token != 0 && seen != 0) {
      if (token != seen) break;
      ++fits;
    }
    position = (position == 0 ? pattern_->size() : position) - 1;
  }
  return fits;
}

std::optional<Matcher::Place> Matcher::FindNear(const Request& request) const noexcept {
  const std::uint32_t end = std::min(cursor_ + kNear + 1, pattern_->size());
  for (std::uint32_t i = cursor_ + 1; i < end; ++i)
    if (pattern_->entries[i].token != 0 && Unused(i) && Accepts(i, request)) return Place{i, false, true};
  return std::nullopt;
}

// The history already holds the request itself.
std::optional<Matcher::Place> Matcher::FindByContext(const Request& request) const noexcept {
  const std::uint32_t count = pattern_->size();
  auto context_hash = [&](std::uint32_t length) {
    std::uint64_t hash = length;
    if (history_length_ < length) return std::uint64_t{0};
    for (std::uint32_t back = length; back-- > 0;) {
      const std::uint64_t token = history_[(history_length_ - 1 - back) % kHistory];
      if (token == 0) return std::uint64_t{0};
      hash = recurrence::Mix(hash, token) | 1;
    }
    return hash;
  };

  std::optional<Place> best;
  std::uint32_t best_fits = 0;
  std::uint32_t best_distance = 0;
  // Visits the places in the order in which the cursor would reach them, this iteration's last requests first.
  auto visit = [&](std::span<const std::uint32_t> positions, std::uint32_t least_fits, std::uint32_t ahead,
                   std::uint32_t back) {
    if (positions.empty()) return;
    const auto first = std::lower_bound(positions.begin(), positions.end(), cursor_) - positions.begin();
    const auto looked_at = std::min<std::size_t>(positions.size(), kCandidates);
    // Half of them ahead, half behind, if there are so many.
    const std::size_t start =
        positions.size() <= kCandidates
            ? 0
            : (static_cast<std::size_t>(first) + positions.size() - kCandidates / 4) % positions.size();
    for (std::size_t k = 0; k < looked_at; ++k) {
      const std::uint32_t at = positions[(start + k) % positions.size()];
      const bool behind = at < cursor_;
      const bool next_iteration = behind && (!Unused(at) || cursor_ - at > back);
      const std::uint32_t distance = !behind ? at - cursor_ : next_iteration ? at + count - cursor_ : cursor_ - at;
      if (distance > (behind && !next_iteration ? back : ahead)) continue;
      if (!next_iteration && !Unused(at)) continue;
      if (!Accepts(at, request)) continue;
      const std::uint32_t fits = ContextLength(at);
      if (fits < least_fits) continue;
      if (!best || fits > best_fits || (fits == best_fits && distance < best_distance)) {
        best = Place{at, next_iteration, distance > kNear};
        best_fits = fits;
        best_distance = distance;
      }
    }
  };
  visit(pattern_->by_short_context.Find(context_hash(Prepared::kShortContext)), Prepared::kShortContext, kFar, kBack);
  if (!best)
    visit(pattern_->by_long_context.Find(context_hash(Prepared::kLongContext)), Prepared::kLongContext, count, count);
  return best;
}

std::optional<Matcher::Place> Matcher::FindPlace(const Request& request) const noexcept {
  // Sizes alone recur by chance; with a call site, one request is proof enough.
  const bool one_is_proof = misses_ < kLostAfter || request.call_site != 0;
  if (one_is_proof) {
    if (Accepts(cursor_, request)) {
      // A place that takes any size must not swallow a request that is known and due soon.
      if (pattern_->entries[cursor_].token == 0)
        if (const auto due = FindNear(request)) return due;
      return Place{cursor_, false, false};
    }
    if (resume_for_ != 0 && Unused(resume_) && Accepts(resume_, request)) return Place{resume_, false, false};
    const std::uint32_t changed = cursor_ + misses_;
    if (misses_ != 0 && misses_ < kChangesInARow && changed < pattern_->size() && Unused(changed) &&
        Accepts(changed, request))
      return Place{changed, false, true};
    if (const auto near = FindNear(request)) return near;
  }
  return FindByContext(request);
}

std::int32_t Matcher::Search(std::uint64_t size_bytes, std::uint32_t stream, std::uint64_t call_site) noexcept {
  const std::uint64_t key = Key(size_bytes, stream);
  Request request{key, size_bytes, call_site, pattern_->TokenOf(key, stream, call_site), stream};
  ++requests_seen_;
  Remember(request.token);
  if (const auto place = FindPlace(request)) {
    --history_length_;  // Take remembers it under the pattern's name
    if (place->next_iteration) {
      --requests_seen_;
      CloseIteration();
      ++requests_seen_;
    } else if (place->may_be_wrong) {
      resume_ = cursor_;
      resume_for_ = kResumeFor + 1;
    }
    return Take(place->position);
  }
  ++misses_;
  if (resume_for_ != 0) --resume_for_;
  if (requests_seen_ > std::uint64_t{kDriftAfterIterations} * pattern_->size()) {
    match_rate_.store(static_cast<double>(requests_matched_) / requests_seen_, std::memory_order_relaxed);
    requests_seen_ = requests_matched_ = 0;
  }
  return kNone;
}

}  // namespace stalloc::runtime
