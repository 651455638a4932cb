// IterationFinder: of the periods that the searches propose, which one to believe.
//
// The longest that fits twice wins (three steps and an evaluation over one step, a step over its micro-batches), and a
// repetition must outweigh: at first a good part of all that was seen, later two of the iterations found before. So a
// loop over layers or parameters is not taken for an iteration while the first two of them are still under way, nor a
// short evaluation for the end of training.
#include "runtime/recurrence.h"

#include "recurrence_period.h"
#include "recurrence_window.h"

namespace stalloc::runtime {

namespace {

constexpr std::size_t kShareOfAll = 4;  // 1 / share of the requests seen must repeat before the first is found
constexpr std::size_t kLongestComposite = 1u << 16;  // requests in an iteration that is made up of shorter ones

}  // namespace

struct IterationFinder::State {
  recurrence::Window window;
  std::size_t last_length = 0;  // requests of the iteration found last

  bool Outweighs(const recurrence::Iteration& iteration) const {
    if (last_length == 0) return iteration.run * kShareOfAll >= window.requests().size();
    // A shorter one than before must fill the time of two of those.
    return iteration.length() * 2 >= last_length || iteration.run >= 2 * last_length;
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
  std::vector<recurrence::Iteration> iterations = recurrence::ExactIterations(requests);
  const recurrence::Iteration* chosen = state_->Choose(iterations);
  if (chosen == nullptr) {
    iterations = recurrence::SimilarIterations(requests);
    chosen = state_->Choose(iterations);
  }
  if (chosen == nullptr) return std::nullopt;
  state_->last_length = chosen->length();
  return recurrence::MakePattern(requests, *chosen);
}

}  // namespace stalloc::runtime
