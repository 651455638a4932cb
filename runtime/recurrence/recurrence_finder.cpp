// IterationFinder: of the periods that the searches propose, which one to believe.
//
// The longest that fits twice wins (three steps and an evaluation over one step, a step over its micro-batches), and a
// repetition must outweigh: at first a good part of all that was seen, later several of the iterations found before. So
// a loop over layers or parameters is not taken for an iteration while the first two of them are still under way, nor a
// short evaluation for the end of training.
#include "runtime/recurrence/recurrence.h"

#include "recurrence/recurrence_period.h"
#include "recurrence/recurrence_window.h"

namespace stalloc::runtime {

namespace {

constexpr std::size_t kShorterRun = 8;  // iterations found before, that a shorter one must fill
constexpr std::size_t kShareOfAll = 3;  // 1 / share of the requests seen must repeat before the first is found
constexpr std::size_t kLongestComposite = 1u << 16;  // requests in an iteration that is made up of shorter ones

}  // namespace

struct IterationFinder::State {
  recurrence::Window window;
  std::size_t last_length = 0;        // requests of the iteration found last
  std::uint64_t exact_until = 0;      // requests seen when an exact one was found last
  std::uint64_t last_begin = 0;       // where the iteration found last began, counted from the first request of all
  std::optional<Pattern> last_found;  // and its pattern, if it was not exact: that takes time
  std::vector<bool> last_varied;      // of its requests: whether their sizes are known to vary

  bool Outweighs(const recurrence::Iteration& iteration) const {
    if (last_length == 0) return iteration.run * kShareOfAll >= window.requests().size();
    return iteration.length() * 2 >= last_length || iteration.run >= kShorterRun * last_length;
  }

  // Where sizes scale the shortest is the iteration: in several of them in a row each would have room for another size.
  void PreferScaled(const std::vector<recurrence::Iteration>& longest_first) {
    for (auto iteration = longest_first.rbegin(); iteration != longest_first.rend(); ++iteration) {
      if (!Outweighs(*iteration)) continue;
      std::optional<Pattern> scaled = recurrence::ScaledPattern(window.requests(), *iteration);
      if (!scaled) continue;
      last_found = std::move(scaled);
      return;
    }
  }

  const recurrence::Iteration* Choose(const std::vector<recurrence::Iteration>& longest_first) const {
    for (const recurrence::Iteration& iteration : longest_first) {
      const bool composite = &iteration != &longest_first.back();
      if (composite && iteration.length() > kLongestComposite) continue;
      if (Outweighs(iteration)) return &iteration;
    }
    return nullptr;
  }
};

IterationFinder::IterationFinder() : state_(std::make_unique<State>()) {}
IterationFinder::~IterationFinder() = default;

void IterationFinder::Observe(std::span<const Observation> observations) {
  for (const Observation& observation : observations) state_->window.Observe(observation);
}

std::optional<Pattern> IterationFinder::Find() {
  const auto requests = state_->window.requests();
  if (requests.empty()) return std::nullopt;
  const std::uint64_t dropped = state_->window.dropped();
  std::vector<recurrence::Iteration> iterations = recurrence::ExactIterations(requests);
  if (const recurrence::Iteration* exact = state_->Choose(iterations)) {
    state_->last_length = exact->length();
    state_->exact_until = dropped + requests.size();
    state_->last_found.reset();
    return recurrence::MakePattern(requests, *exact);
  }
  iterations = recurrence::SimilarIterations(requests, state_->last_length);
  const recurrence::Iteration* similar = state_->Choose(iterations);
  if (similar == nullptr) return std::nullopt;
  // An exact iteration stays better than one that only resembles it, until two whole ones were never exact.
  if (recurrence::SameLength(similar->length(), state_->last_length) &&
      dropped + similar->previous < state_->exact_until)
    return std::nullopt;
  if (!state_->last_found || state_->last_begin != dropped + similar->begin ||
      state_->last_length != similar->length()) {
    std::vector<bool> varied_before;
    if (state_->last_found && state_->last_begin == dropped + similar->previous &&
        state_->last_length == similar->begin - similar->previous)
      varied_before = std::move(state_->last_varied);
    state_->last_begin = dropped + similar->begin;
    state_->last_length = similar->length();
    state_->last_found = recurrence::MakePattern(requests, *similar, varied_before);
    state_->last_varied.clear();
    for (const PatternRequest& request : state_->last_found->requests)
      state_->last_varied.push_back(request.size_varies);
    if (recurrence::VariesWidely(*state_->last_found)) state_->PreferScaled(iterations);
  }
  return state_->last_found;
}

}  // namespace stalloc::runtime
