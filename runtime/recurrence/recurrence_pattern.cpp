// From the iteration found to the pattern: which request corresponds to which in the iteration before, and so which
// sizes vary, which blocks persist, and when a block is freed that is not freed yet.
#include <algorithm>
#include <unordered_map>

#include "recurrence/recurrence_index.h"
#include "recurrence/recurrence_period.h"

namespace stalloc::runtime::recurrence {

Pattern MakePattern(std::span<const Request> requests, const Iteration& iteration,
                    const std::vector<bool>& varied_before) {
  const auto current = requests.subspan(iteration.begin, iteration.length());
  const std::int64_t start = current.front().begin;
  Pattern pattern;
  pattern.exact = iteration.exact;
  pattern.period = requests[iteration.end].begin - start;
  pattern.first_block = current.front().block;
  pattern.last_block = requests[iteration.end].block;

  // The counterpart of a request is one that is known to have been seen for a whole period.
  std::vector<std::int32_t> pairs = iteration.pairs;
  const std::size_t n = requests.size(), p = iteration.length();
  if (!iteration.exact && pairs.empty())
    pairs = Align(requests.subspan(iteration.previous, iteration.begin - iteration.previous), current);

  std::unordered_map<std::uint64_t, std::uint32_t> occurrences;
  pattern.requests.reserve(current.size());
  for (std::size_t i = 0; i < current.size(); ++i) {
    const Request& request = current[i];
    const std::size_t here = iteration.begin + i;
    const Request* counterpart = nullptr;
    if (iteration.exact)
      counterpart = &requests[here + p < n ? here : here - p];
    else if (pairs[i] >= 0)
      counterpart = &requests[iteration.previous + static_cast<std::size_t>(pairs[i])];

    PatternRequest out;
    out.call_site = request.call_site;
    out.size_bytes = request.size_bytes;
    out.stream = request.stream;
    out.example_block = request.block;
    out.begin = request.begin - start;
    out.size_varies = counterpart == nullptr || counterpart->size_bytes != request.size_bytes;
    // Two sizes may be equal by chance.
    if (!varied_before.empty() && pairs[i] >= 0) out.size_varies |= varied_before[static_cast<std::size_t>(pairs[i])];
    std::int64_t lifetime = kOpen;
    if (request.end != kOpen)
      lifetime = request.end - request.begin;
    else if (counterpart != nullptr && counterpart->end != kOpen)
      lifetime = counterpart->end - counterpart->begin;
    out.persists = lifetime > pattern.period;
    out.end = out.begin + std::min(lifetime, pattern.period + 1);
    const std::uint64_t identity =
        out.size_varies ? Mix(request.call_site, ~std::uint64_t{request.stream}) : request.token;
    out.occurrence = occurrences[identity]++;
    pattern.requests.push_back(out);
  }
  return pattern;
}

}  // namespace stalloc::runtime::recurrence
