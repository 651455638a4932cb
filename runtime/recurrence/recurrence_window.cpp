#include "recurrence/recurrence_window.h"

#include "recurrence/recurrence_index.h"

namespace stalloc::runtime::recurrence {

void Window::Observe(const Observation& observation) {
  const std::int64_t now = events_++;
  if (observation.op == Observation::Op::kFree) {
    const Open* open = open_.Find(observation.block + 1);
    if (open == nullptr) return;  // allocated before the first observation
    if (open->number >= dropped_) requests_[open->number - dropped_].end = now;
    live_bytes_ -= static_cast<std::int64_t>(open->size_bytes);
    open_.Erase(observation.block + 1);
    return;
  }
  if (requests_.size() == kCapacity) {
    requests_.erase(requests_.begin(), requests_.begin() + kCapacity / 2);
    dropped_ += kCapacity / 2;
  }
  Request request;
  request.block = observation.block;
  request.size_bytes = observation.size_bytes;
  request.call_site = observation.call_site;
  request.token = Mix(Mix(observation.call_site, observation.size_bytes), observation.stream);
  request.begin = now;
  request.live_bytes = live_bytes_;
  request.stream = observation.stream;
  open_.Insert(observation.block + 1, {dropped_ + requests_.size(), observation.size_bytes});
  requests_.push_back(request);
  live_bytes_ += static_cast<std::int64_t>(observation.size_bytes);
}

}  // namespace stalloc::runtime::recurrence
