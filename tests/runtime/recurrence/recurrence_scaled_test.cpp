// Iterations whose sizes scale: the pattern has room for the largest of each request, and for hardly more than one
// iteration needs, whatever the program. And those that vary too much to be planned.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "recurrence/recurrence_period.h"
#include "recurrence_script.h"
#include "runtime/recurrence/recurrence.h"

namespace stalloc::runtime {
namespace {

// A program whose iterations are one sequence of requests and frees, with sizes that follow one or two parameters.
struct Program {
  struct Request {
    std::uint64_t call_site = 0;
    std::uint64_t constant = 0, by_first = 0, by_second = 0;  // bytes, and bytes a unit of each parameter
    std::size_t freed_before = 0;                             // the index of the request that its free comes before
  };
  std::vector<Request> requests;

  std::uint64_t SizeOf(std::size_t i, std::uint64_t first, std::uint64_t second) const {
    return requests[i].constant + requests[i].by_first * first + requests[i].by_second * second;
  }

  void Iterate(Script* script, int step, std::uint64_t first, std::uint64_t second) const {
    std::vector<std::vector<std::uint64_t>> ending(requests.size() + 1);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      for (const std::uint64_t block : ending[i]) script->Free(block);
      ending[requests[i].freed_before].push_back(
          script->Allocate(requests[i].call_site, SizeOf(i, first, second), 0, {step, i}));
    }
    for (const std::uint64_t block : ending.back()) script->Free(block);
  }

  // The most that is live at once if request i has sizes[i].
  std::uint64_t Peak(const std::vector<std::uint64_t>& sizes) const {
    std::uint64_t peak = 0;
    for (std::size_t at = 0; at < requests.size(); ++at) {
      std::uint64_t live = 0;
      for (std::size_t i = 0; i <= at; ++i) live += requests[i].freed_before > at ? sizes[i] : 0;
      peak = std::max(peak, live);
    }
    return peak;
  }
};

Program AnyProgram(bool two_parameters) {
  Program program;
  const auto count = *rc::gen::inRange<std::size_t>(40, 120);
  for (std::size_t i = 0; i < count; ++i) {
    Program::Request request;
    request.call_site = *rc::gen::inRange<std::uint64_t>(1, 20);
    request.constant = 512 * *rc::gen::inRange<std::uint64_t>(1, 100);
    if (i % 4 != 0) request.by_first = 512 * *rc::gen::inRange<std::uint64_t>(1, 400);
    if (two_parameters && i % 3 == 0) request.by_second = 512 * *rc::gen::inRange<std::uint64_t>(1, 400);
    request.freed_before = *rc::gen::inRange<std::size_t>(i + 1, count + 1);
    program.requests.push_back(request);
  }
  return program;
}

struct Seen {
  std::optional<Pattern> pattern;
  std::vector<std::uint64_t> largest;  // of each request
  std::uint64_t largest_peak = 0;      // of an iteration
  double more = 0;                     // of the bytes by which the others differ from that iteration
};

// Which part of what the other iterations differ by is more than in iteration `largest`.
double MoreIn(const std::vector<std::vector<std::uint64_t>>& iterations, std::size_t largest) {
  double more = 0, all = 0;
  for (const std::vector<std::uint64_t>& sizes : iterations) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const double apart = static_cast<double>(sizes[i]) - static_cast<double>(iterations[largest][i]);
      more += std::max(0.0, apart);
      all += std::abs(apart);
    }
  }
  return all == 0 ? 0 : more / all;
}

Seen Watch(const Program& program, bool two_parameters) {
  Script script;
  for (int i = 0; i < 10; ++i) script.Allocate(1000 + i, 1 << 20, 0, {});
  Seen seen;
  seen.largest.resize(program.requests.size());
  std::vector<std::vector<std::uint64_t>> iterations;
  std::size_t largest = 0;
  recurrence::Iteration iteration;
  for (int step = 1; step <= 6; ++step) {
    const auto first = *rc::gen::inRange<std::uint64_t>(20, 300);
    const auto second = two_parameters ? *rc::gen::inRange<std::uint64_t>(20, 300) : 0;
    iteration.previous = iteration.begin;
    iteration.begin = script.truths.size();
    iteration.starts.push_back(iteration.begin);
    program.Iterate(&script, step, first, second);
    iteration.end = script.truths.size();
    std::vector<std::uint64_t> sizes;
    for (std::size_t i = 0; i < program.requests.size(); ++i) {
      sizes.push_back(program.SizeOf(i, first, second));
      seen.largest[i] = std::max(seen.largest[i], sizes[i]);
    }
    if (const std::uint64_t peak = program.Peak(sizes); peak >= seen.largest_peak) {
      seen.largest_peak = peak;
      largest = iterations.size();
    }
    iterations.push_back(std::move(sizes));
  }
  seen.more = MoreIn(iterations, largest);
  program.Iterate(&script, 7, 20, 20);  // it goes on
  recurrence::Window window;
  for (const Observation& observation : script.observations) window.Observe(observation);
  seen.pattern = recurrence::ScaledPattern(window.requests(), iteration);
  return seen;
}

TEST(ScaledPattern, HasRoomForTheLargestOfEachRequest) {
  EXPECT_TRUE(rc::check([&] {
    const Program program = AnyProgram(false);
    const Seen seen = Watch(program, false);
    RC_ASSERT(seen.pattern);
    RC_ASSERT(seen.pattern->requests.size() == program.requests.size());
    for (std::size_t i = 0; i < program.requests.size(); ++i) {
      const PatternRequest& r = seen.pattern->requests[i];
      RC_ASSERT(r.call_site == program.requests[i].call_site);
      RC_ASSERT(r.size_bytes == seen.largest[i]);
      RC_ASSERT(r.scales == r.size_varies);
      RC_ASSERT(!r.scales || program.requests[i].by_first != 0);
      RC_ASSERT(!r.persists);
    }
    RC_ASSERT(!recurrence::VariesWidely(*seen.pattern));
  }));
}

TEST(ScaledPattern, IsBoundedByWhatOneIterationNeeds) {
  EXPECT_TRUE(rc::check([&] {
    const Program program = AnyProgram(true);
    const Seen seen = Watch(program, true);
    const double together = static_cast<double>(program.Peak(seen.largest));
    const double over = together / static_cast<double>(seen.largest_peak);
    RC_CLASSIFY(seen.pattern.has_value(), "planned");
    RC_ASSERT(seen.pattern.has_value() == (over <= 1.01 && seen.more <= 0.1));
  }));
}

TEST(VariesWidely, ByHowManyRequestsDoAndByHowMuchTheyAre) {
  constexpr std::uint64_t kSize = std::uint64_t{1} << 20;
  const auto varies = [](std::size_t varying, std::uint64_t bytes, bool scales = false) {
    Pattern pattern;
    pattern.requests.resize(200, {.size_bytes = kSize});
    for (std::size_t i = 0; i < varying; ++i) {
      pattern.requests[i].size_bytes = bytes;
      pattern.requests[i].size_varies = true;
      pattern.requests[i].scales = scales;
    }
    return recurrence::VariesWidely(pattern);
  };
  EXPECT_FALSE(varies(0, kSize));
  EXPECT_FALSE(varies(1, kSize));
  EXPECT_TRUE(varies(6, kSize)) << "a few experts of many";
  EXPECT_FALSE(varies(6, 4096)) << "small ones are in nobody's way";
  EXPECT_TRUE(varies(20, 4096)) << "unless there are many";
  EXPECT_FALSE(varies(200, kSize, true));
}

}  // namespace
}  // namespace stalloc::runtime
