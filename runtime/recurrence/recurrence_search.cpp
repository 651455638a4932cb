// The matcher out of step: a request came that is not the expected one.
//
// It may be inserted (the expected one still comes), changed (it stands for the expected one), in another order, or
// others are missing before it; or the program does something else for a while. One request cannot tell these apart, so
// until some requests in a row have matched, the places where the program may be are followed all at once: an alignment
// of the requests with the pattern (Needleman and Wunsch, with affine gaps), of which only the last row is kept.
//
//     request matches the place's      + what its name is worth: call site and size most, then rare sizes, then the way
//                                        in which sizes repeat
//     changed, inserted                - a little
//     missing                          - more, for each one, and for leaving out the iteration's end
//     anything, anywhere in the window - kAnew, as if the search began there
//
// The best place is believed, request by request, so that a mistake lasts only until the evidence speaks against it.
// Requests already handed out in this iteration cannot match again. Where nothing in the window fits, a run of
// Prepared::kContext requests finds its place anywhere in the pattern.
//
// Under the device's lock; never allocates or throws. A request costs about kPlaces steps here; while the program does
// something else for long, one that the pattern has nowhere costs a few look-ups.
#include <algorithm>
#include <limits>

#include "recurrence/recurrence_prepared.h"
#include "runtime/recurrence/recurrence.h"

namespace stalloc::runtime {

namespace {

constexpr std::int32_t kNoMatch = std::numeric_limits<std::int32_t>::min() / 4;
constexpr std::int32_t kVaries = 20;   // a call site whose size varies
constexpr std::int32_t kRepeats = 4;   // no call site: the size varies, but repeats as it should, ...
constexpr std::int32_t kIsNew = 2;     // ... is new, as it should be, ...
constexpr std::int32_t kSomeSize = 0;  // ... or neither
constexpr std::int32_t kChangedSameSite = 4;
constexpr std::int32_t kChangedAlike = -1;  // it repeats as it should
constexpr std::int32_t kChanged = -3;
constexpr std::int32_t kInserted = -2;
constexpr std::int32_t kMissing = -4;  // the first of a gap
constexpr std::int32_t kMissingNext = -3;
constexpr std::int32_t kMissingEnd = -8;  // on top, for leaving out the iteration's last request
constexpr std::int32_t kBackwards = -12;  // for requests that were skipped before the search began
constexpr std::int32_t kAnew = -240;
constexpr std::int32_t kLeftOut = 2;  // places that may be passed over where nothing was wrong so far

constexpr std::uint32_t kPlacesBehind = 96;
constexpr std::uint32_t kInStepAfter = 4;      // requests that match in a row
constexpr std::uint32_t kUniqueAfter = 8;      // misses, for a run of requests that occurs nowhere else, ...
constexpr std::uint32_t kRepeatedAfter = 16;   // ... and for one that does, ...
constexpr std::uint32_t kRepeatedContext = 8;  // ... of which so many requests must fit
constexpr std::uint32_t kMissWeight = 16;      // of one in the running count of misses, which forgets 1 / 16 a request
constexpr std::uint32_t kFewMisses = 32;       // running count: look elsewhere too
constexpr std::uint32_t kLost = 128;           // running count: the program does something else
constexpr std::uint32_t kSettle = 8;           // requests between two jumps out of the window
constexpr std::uint32_t kCandidates = 64;      // places looked at elsewhere
constexpr std::uint64_t kVaryingSizeRatio = 128;  // without call sites: how far a size may lie from the example's

}  // namespace

struct Matcher::Request {
  std::uint64_t key;
  std::uint64_t size_bytes;
  std::uint64_t call_site;
  std::uint64_t token;  // its own name in a context
  std::uint32_t stream;
  std::uint32_t repeat_distance;
};

std::uint32_t Matcher::RepeatDistance(std::uint64_t key) const noexcept {
  const std::uint32_t known = std::min(history_length_, kHistory);
  for (std::uint32_t back = 1; back <= known; ++back)
    if (recent_keys_[(history_length_ - back) % kHistory] == key) return back;
  return 0;
}

// What it is worth if `request` is the one at `position`; kNoMatch if it cannot be.
std::int32_t Matcher::MatchScore(std::uint32_t position, const Request& request) const noexcept {
  const Prepared::Entry& entry = pattern_->entries[position];
  if (!entry.size_varies) {
    if (entry.key != request.key || entry.key == kNeverExpected) return kNoMatch;
    if (entry.call_site != request.call_site && entry.call_site != 0 && request.call_site != 0) return kNoMatch;
    return entry.weight;
  }
  if (entry.stream != request.stream) return kNoMatch;
  if (entry.call_site != 0 || request.call_site != 0) return entry.call_site == request.call_site ? kVaries : kNoMatch;
  if (entry.size_bytes > request.size_bytes * kVaryingSizeRatio ||
      request.size_bytes > entry.size_bytes * kVaryingSizeRatio)
    return kNoMatch;
  if (entry.repeat_distance != request.repeat_distance) return kSomeSize;
  return entry.repeat_distance != 0 ? kRepeats : kIsNew;
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

// The place in the whole pattern that most of the last requests fit, `request` being the last of them; the first that
// the cursor would come to if there are several. From the pattern's size on: in the next iteration.
std::int32_t Matcher::FindAnywhere(const Request& request) const noexcept {
  if (history_length_ < Prepared::kContext) return kNone;
  std::uint64_t hash = 1;
  for (std::uint32_t back = Prepared::kContext; back-- > 0;) {
    const std::uint64_t token = history_[(history_length_ - 1 - back) % kHistory];
    if (token == 0) return kNone;
    hash = recurrence::Mix(hash, token) | 1;
  }
  const auto positions = pattern_->by_context.Find(hash);
  // What the program comes back to from something else is the iteration's beginning, most often.
  constexpr std::uint32_t kBeginning = Prepared::kContext - 1;
  if (recent_misses_ >= kLost && !positions.empty() && positions.front() == kBeginning &&
      MatchScore(kBeginning, request) != kNoMatch)
    return static_cast<std::int32_t>(pattern_->used_in[kBeginning] == epoch_ ? kBeginning + pattern_->size()
                                                                             : kBeginning);
  // A run that occurs in several places, say in each layer, proves little unless it is long; one that occurs in one
  // place proves that place, but where sizes change and nothing but sizes is known, it may have come about by chance.
  const bool unique = positions.size() == 1;
  const bool enough =
      unique ? misses_ >= kUniqueAfter || (in_a_row_ <= 1 && !pattern_->has_unnamed) : misses_ >= kRepeatedAfter;
  if (!enough) return kNone;
  std::uint32_t best_fits = (unique ? Prepared::kContext : kRepeatedContext) - 1;
  const std::size_t first =
      static_cast<std::size_t>(std::lower_bound(positions.begin(), positions.end(), cursor_) - positions.begin());
  std::int32_t best = kNone;
  for (std::size_t k = 0; k < std::min<std::size_t>(positions.size(), kCandidates); ++k) {
    const std::uint32_t at = positions[(first + k) % positions.size()];
    if (MatchScore(at, request) == kNoMatch) continue;
    // What is still to come in this iteration, before or behind the cursor, is taken before the next iteration's.
    const bool next = pattern_->used_in[at] == epoch_;
    const std::uint32_t fits = ContextLength(at);
    if (fits <= best_fits) continue;
    best_fits = fits;
    best = static_cast<std::int32_t>(next ? at + pattern_->size() : at);
  }
  return best;
}

// Starts following places, `position` being the likeliest. Where sizes scale and nothing was wrong so far, the program
// may have left out the next requests there, say a workspace that only large sizes take; where sizes are fixed, other
// requests in between are the likelier, and a place given too early is dearer than one request served online.
void Matcher::BeginSearch(std::int32_t position, bool may_leave_out) noexcept {
  const std::int32_t count = static_cast<std::int32_t>(pattern_->size());
  places_ = static_cast<std::uint32_t>(std::min<std::int32_t>(count + 1, kPlaces));
  base_ = position - static_cast<std::int32_t>(std::min(kPlacesBehind, places_ * 3 / 8));
  searching_ = true;
  in_a_row_ = 0;
  for (std::uint32_t k = 0; k < places_; ++k) {
    const std::int32_t at = base_ + static_cast<std::int32_t>(k);
    const std::int32_t ahead = at - position;
    scores_[k] = at < 0                               ? kNoMatch
                 : ahead == 0                         ? 0
                 : ahead < 0                          ? kBackwards + ahead / 2
                 : may_leave_out && ahead <= kLeftOut ? kMissing + (ahead - 1) * kMissingNext
                                                      : kAnew;
  }
}

// True if no place of the pattern can be that of `request`.
bool Matcher::Prepared::Lacks(const Request& request) const noexcept {
  return request.call_site != 0 && !has_unnamed && by_token.Find(request.token).empty() &&
         by_token.Find(SizedToken(request.key, 0)).empty();
}

// One more row of the alignment. Returns the place that `request` matched in the best of the alignments, from the
// pattern's size on if in the next iteration, or kNone if that one leaves it unmatched.
std::int32_t Matcher::Advance(const Request& request) noexcept {
  const std::int32_t count = static_cast<std::int32_t>(pattern_->size());
  std::int32_t matched_before = kNoMatch;  // of place k - 1 coming next, if its request was `request`
  std::int32_t changed_before = kNoMatch;
  std::int32_t gap = kNoMatch;
  std::int32_t best = kNoMatch, best_place = kNone;
  bool best_matches = false;
  for (std::uint32_t k = 0; k < places_; ++k) {
    std::int32_t at = base_ + static_cast<std::int32_t>(k);
    if (at < 0 || at >= 2 * count) continue;
    const bool next_iteration = at >= count;
    if (next_iteration) at -= count;
    const std::uint32_t position = static_cast<std::uint32_t>(at);
    const std::int32_t here = scores_[k];

    std::int32_t score = here + kInserted;
    bool matches = false;
    if (matched_before > score) score = matched_before, matches = true;
    if (changed_before > score) score = changed_before, matches = false;
    if (gap > score) score = gap, matches = false;
    // Of equal ones, that which goes on from the last request.
    const std::int32_t place = base_ + static_cast<std::int32_t>(k) - 1;
    if (score > best || (score == best && matches && place == last_place_ + 1)) {
      best = score;
      best_place = place;
      best_matches = matches;
    }

    const bool used = !next_iteration && pattern_->used_in[position] == epoch_;
    if (used) {
      // Handed out already: passing it is no omission.
      matched_before = changed_before = kNoMatch;
      gap = std::max(gap, score);
    } else {
      const std::int32_t worth = MatchScore(position, request);
      matched_before = worth == kNoMatch ? kNoMatch : here + worth;
      const Prepared::Entry& entry = pattern_->entries[position];
      const bool same_site = request.call_site != 0 && entry.call_site == request.call_site;
      const bool alike = request.call_site == 0 && entry.repeat_distance == request.repeat_distance;
      changed_before = here + (same_site ? kChangedSameSite : alike ? kChangedAlike : kChanged);
      const std::int32_t end = at + 1 == count ? kMissingEnd : 0;
      gap = std::max(score + kMissing, gap + kMissingNext) + end;
    }
    scores_[k] = score;
  }
  for (std::uint32_t k = 0; k < places_; ++k)
    scores_[k] = base_ + static_cast<std::int32_t>(k) < 0 ? kNoMatch : std::max(scores_[k] - best, kAnew);
  return best_matches ? best_place : kNone;
}

std::int32_t Matcher::Search(std::uint64_t size_bytes, std::uint32_t stream, std::uint64_t call_site) noexcept {
  const std::uint64_t key = Key(size_bytes, stream);
  const std::uint32_t distance = RepeatDistance(key);
  const std::uint64_t token = pattern_->TokenOf(key, stream, call_site, distance);
  const Request request{key, size_bytes, call_site, token, stream, distance};

  if (!searching_) {
    // A request whose size varies is taken in step if what it is known by fits.
    if (pattern_->entries[cursor_].size_varies && pattern_->entries[cursor_].token == token &&
        MatchScore(cursor_, request) > kSomeSize)
      return Take(cursor_, key);
    BeginSearch(static_cast<std::int32_t>(cursor_), pattern_->scales);
  }

  Remember(token, key);
  ++since_jump_;
  const std::int32_t count = static_cast<std::int32_t>(pattern_->size());
  std::int32_t place = recent_misses_ >= kLost && pattern_->Lacks(request) ? kNone : Advance(request);
  if (since_jump_ >= kSettle && (place == kNone || recent_misses_ >= kFewMisses)) {
    std::int32_t elsewhere = FindAnywhere(request);
    if (elsewhere != kNone && elsewhere != place) {
      if (elsewhere >= count) {
        CloseIteration();
        elsewhere -= count;
      }
      place = elsewhere;
      since_jump_ = 0;
      // The search goes on from here, with what the last requests have proven.
      BeginSearch(place);
      std::rotate(scores_, scores_ + places_ - 1, scores_ + places_);
      scores_[0] = kNoMatch;
    }
  }
  const bool lost = recent_misses_ >= kLost;
  recent_misses_ -= recent_misses_ / kMissWeight;
  // Where the program does something else, one request that looks right is not yet believed.
  const bool follows = place != kNone && place == last_place_ + 1;
  last_place_ = place == kNone ? kNowhere : place;
  if (place == kNone) return Miss();
  const std::uint32_t offset = static_cast<std::uint32_t>(place - base_);
  if (lost && !follows) {
    if (place < count) KeepAhead(offset);
    return Miss();
  }

  --history_length_;  // Take remembers it under the pattern's name
  if (place >= count) {
    CloseIteration();
    place -= count;
  }
  const std::uint32_t position = static_cast<std::uint32_t>(place);
  in_a_row_ = position == cursor_ ? in_a_row_ + 1 : 1;
  if (in_a_row_ >= kInStepAfter) searching_ = false;
  KeepAhead(offset);
  return Take(position, key);
}

std::int32_t Matcher::Miss() noexcept {
  ++misses_;
  recent_misses_ += kMissWeight;
  in_a_row_ = 0;
  Aim();
  return kNone;
}

// Moves the window on when behind the place found, scores_[offset], little of it is left.
void Matcher::KeepAhead(std::uint32_t offset) noexcept {
  if (!searching_ || offset + 1 + std::max(places_ / 4, 1u) < places_) return;
  const std::uint32_t by = offset + 1 - places_ * 3 / 8;
  std::copy(scores_ + by, scores_ + places_, scores_);
  std::fill(scores_ + places_ - by, scores_ + places_, kAnew);
  base_ += static_cast<std::int32_t>(by);
}

}  // namespace stalloc::runtime
