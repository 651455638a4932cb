#include "runtime/service/history.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "runtime/call_sites/python_stack.h"

namespace stalloc::runtime {

constinit std::atomic<bool> History::on_{false};

namespace {

constexpr std::size_t kMostFrames = 128;  // deeper stacks lose their outermost frames

enum Action : std::uint8_t { kAllocate, kFree, kOutOfMemory };

struct Event {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t stream = 0;
  std::uint64_t time_us = 0;
  std::uint32_t stack = 0;
  Action action = kAllocate;
};

struct Frame {
  std::string file;
  int line = 0;
  std::string name;
  friend bool operator<(const Frame& a, const Frame& b) {
    return std::tie(a.line, a.name, a.file) < std::tie(b.line, b.name, b.file);
  }
};

using Stack = std::vector<std::uint32_t>;  // frames, innermost first

struct Device {
  std::deque<Event> events;
  std::unordered_map<std::uint64_t, Event> live;  // blocks that were requested while the history was on, by address
};

struct State {
  std::mutex mutex;
  HistoryOptions options;
  std::map<int, Device> devices;
  std::map<Frame, std::uint32_t> frame_numbers;
  std::vector<const Frame*> frames;
  std::map<Stack, std::uint32_t> stack_numbers;
  std::vector<const Stack*> stacks;
};

State& It() {
  static State& it = *new State;
  return it;
}

std::uint64_t NowUs() noexcept {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

// The number of `value`: the one that it has, or the next.
template <typename Value>
std::uint32_t NumberOf(Value value, std::map<Value, std::uint32_t>* numbers, std::vector<const Value*>* values) {
  const auto [place, first] = numbers->try_emplace(std::move(value), static_cast<std::uint32_t>(values->size()));
  if (first) values->push_back(&place->first);
  return place->second;
}

std::uint32_t StackHere(State& it, bool wanted) {
  PythonFrame read[kMostFrames];
  const std::size_t count = wanted ? PythonStack(read, kMostFrames) : 0;
  Stack stack(count);
  for (std::size_t i = 0; i < count; ++i) {
    Frame frame{std::string(read[i].file), read[i].line, std::string(read[i].name)};
    stack[i] = NumberOf(std::move(frame), &it.frame_numbers, &it.frames);
  }
  return NumberOf(std::move(stack), &it.stack_numbers, &it.stacks);
}

void Keep(State& it, Device& device, const Event& event) {
  if (!it.options.events) return;
  device.events.push_back(event);
  while (device.events.size() > it.options.most_events) device.events.pop_front();
}

// change(state) under the lock, as far as the host's memory goes.
template <typename Change>
void Under(Change change) noexcept {
  try {
    State& it = It();
    const std::lock_guard lock(it.mutex);
    change(it);
  } catch (const std::exception&) {
  }
}

void AppendText(const std::string& text, std::string* json) {
  *json += '"';
  for (const char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\') {
      *json += '\\';
      *json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      *json += escaped;
    } else {
      *json += c;
    }
  }
  *json += '"';
}

void AppendNumbers(std::initializer_list<std::uint64_t> numbers, std::string* json) {
  const char* before = "[";
  for (const std::uint64_t number : numbers) {
    json->append(before).append(std::to_string(number));
    before = ",";
  }
}

// append(value) for each, in brackets and with commas.
template <typename Values, typename Append>
void AppendList(const Values& values, std::string* json, Append append) {
  *json += '[';
  bool first = true;
  for (const auto& value : values) {
    if (!first) *json += ',';
    first = false;
    append(value);
  }
  *json += ']';
}

}  // namespace

void History::Start(const HistoryOptions& options) noexcept {
  Under([&](State& it) {
    it.options = options;
    if (it.stacks.empty()) NumberOf(Stack(), &it.stack_numbers, &it.stacks);
    for (auto& [number, device] : it.devices)
      while (device.events.size() > options.most_events) device.events.pop_front();
    on_.store(true);
  });
}

void History::Stop() noexcept { on_.store(false); }

void History::Clear() noexcept {
  Under([](State& it) {
    for (auto& [number, device] : it.devices) device.events.clear();
  });
}

void History::Allocated(int device, std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream) noexcept {
  Under([&](State& it) {
    Event event{address, size_bytes, stream, NowUs(), 0, kAllocate};
    event.stack = StackHere(it, it.options.stacks >= HistoryStacks::kLive);
    it.devices[device].live.insert_or_assign(address, event);
    if (it.options.stacks < HistoryStacks::kAllocations) event.stack = 0;
    Keep(it, it.devices[device], event);
  });
}

void History::Freed(int device, std::uint64_t address, std::uint64_t size_bytes, std::uint64_t stream) noexcept {
  Under([&](State& it) {
    it.devices[device].live.erase(address);
    const std::uint32_t stack = StackHere(it, it.options.stacks == HistoryStacks::kAll);
    Keep(it, it.devices[device], {address, size_bytes, stream, NowUs(), stack, kFree});
  });
}

void History::OutOfMemory(int device, std::uint64_t size_bytes, std::uint64_t free_bytes) noexcept {
  Under([&](State& it) {
    const std::uint32_t stack = StackHere(it, it.options.stacks >= HistoryStacks::kAllocations);
    Keep(it, it.devices[device], {free_bytes, size_bytes, 0, NowUs(), stack, kOutOfMemory});
  });
}

std::string History::Text(int device, const MemoryLayout& layout, bool with_events) {
  State& it = It();
  const std::lock_guard lock(it.mutex);
  const Device& of = it.devices[device];
  std::string json = R"({"frames":)";
  AppendList(it.frames, &json, [&](const Frame* frame) {
    json += '[';
    AppendText(frame->file, &json);
    json.append(",").append(std::to_string(frame->line)).append(",");
    AppendText(frame->name, &json);
    json += ']';
  });
  json += R"(,"stacks":)";
  AppendList(it.stacks, &json, [&](const Stack* stack) {
    AppendList(*stack, &json, [&](std::uint32_t frame) { json += std::to_string(frame); });
  });
  json += R"(,"segments":)";
  AppendList(layout.segments, &json, [&](const MemoryLayout::Segment& segment) {
    AppendNumbers({segment.address, segment.size_bytes}, &json);
    json += ',';
    AppendList(segment.blocks, &json, [&](const MemoryLayout::Block& block) {
      const auto known = of.live.find(block.address);
      const Event event = known != of.live.end() ? known->second : Event{};
      AppendNumbers({block.address, block.used_bytes, block.requested_bytes, event.stream, event.stack, event.time_us},
                    &json);
      json += ']';
    });
    json += ']';
  });
  json += R"(,"events":)";
  static const std::deque<Event> kNone;
  AppendList(with_events ? of.events : kNone, &json, [&](const Event& event) {
    AppendNumbers({event.action, event.address, event.size_bytes, event.stream, event.stack, event.time_us}, &json);
    json += ']';
  });
  return json += '}';
}

}  // namespace stalloc::runtime
