// How well sizes of an iteration are predicted from its first ones, and how well and fast what is predicted is placed:
// each step of a trace is left out in turn and learnt from the others.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "planner/csv.h"
#include "planner/lower_bound.h"
#include "planner/parametric_plan.h"
#include "planner/trace_problem.h"
#include "planner/validate.h"

namespace {

using namespace stalloc::planner;
using Milliseconds = std::chrono::duration<double, std::milli>;

// The steps whose requests live alike, and are as many, as those of the last whole step.
std::vector<Problem> StepsAlike(const Trace& trace) {
  std::vector<Problem> steps;
  const auto shape = ProblemOfStep(trace);
  for (std::uint32_t step = 0; shape && step < 1000; ++step) {
    auto problem = ProblemOfStep(trace, step);
    if (!problem) continue;
    const auto alike = [](const Request& a, const Request& b) { return a.begin == b.begin && a.end == b.end; };
    if (std::equal(problem->problem.requests.begin(), problem->problem.requests.end(), shape->problem.requests.begin(),
                   shape->problem.requests.end(), alike)) {
      steps.push_back(std::move(problem->problem));
    }
  }
  return steps;
}

std::vector<Bytes> SizesOf(const Problem& problem) {
  std::vector<Bytes> sizes;
  for (const Request& request : problem.requests) sizes.push_back(request.size_bytes);
  return sizes;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Prediction and placement of left-out steps of a trace, as a Markdown table.");
  const char* const set = std::getenv("STALLOC_SHARED_DATA");
  std::string file = std::string(set != nullptr ? set : "../shared/data") + "/training_traces/bert-var.csv.gz";
  app.add_option("FILE", file, "trace as CSV, with steps");
  CLI11_PARSE(app, argc, argv);
  const auto trace = ReadEventCsv(file);
  if (!trace) {
    std::fprintf(stderr, "%s\n", trace.error().Text().c_str());
    return 1;
  }
  const std::vector<Problem> steps = StepsAlike(*trace);
  if (steps.size() < 2) {
    std::fprintf(stderr, "%s: fewer than two steps have the same requests\n", file.c_str());
    return 1;
  }
  std::printf(
      "| left out | first size | requests | parameters | wrong | bytes too few | bytes too many | ratio | ms |\n"
      "|---|---|---|---|---|---|---|---|---|\n");
  for (std::size_t out = 0; out < steps.size(); ++out) {
    std::vector<std::vector<Bytes>> examples;
    for (std::size_t k = 0; k < steps.size(); ++k) {
      if (k != out) examples.push_back(SizesOf(steps[k]));
    }
    SolveOptions options;
    options.time_limit = std::chrono::milliseconds(300);
    ParametricPlan parametric(steps[out], examples, options);
    const std::vector<Bytes> actual = SizesOf(steps[out]);
    std::vector<Bytes> values;
    for (const std::size_t i : parametric.laws().parameters) values.push_back(actual[i]);
    std::vector<double> times;
    PredictedPlan plan;
    for (int repeat = 0; repeat < 21; ++repeat) {
      const auto begin = std::chrono::steady_clock::now();
      plan = parametric.Place(values);
      times.push_back(Milliseconds(std::chrono::steady_clock::now() - begin).count());
    }
    std::nth_element(times.begin(), times.begin() + 10, times.end());
    Problem predicted = steps[out];
    std::size_t wrong = 0;
    Bytes too_few = 0;
    Bytes too_many = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      predicted.requests[i].size_bytes = plan.sizes[i];
      wrong += plan.sizes[i] != actual[i];
      (plan.sizes[i] < actual[i] ? too_few : too_many) +=
          std::max(plan.sizes[i], actual[i]) - std::min(plan.sizes[i], actual[i]);
    }
    if (const auto violation = FindViolation(predicted, plan.placement)) {
      std::fprintf(stderr, "invalid: %s\n", violation->c_str());
      return 1;
    }
    std::printf("| %zu | %llu | %zu | %zu | %zu | %llu | %llu | %.5f | %.2f |\n", out,
                static_cast<unsigned long long>(values.empty() ? 0 : values.front()), actual.size(), values.size(),
                wrong, static_cast<unsigned long long>(too_few), static_cast<unsigned long long>(too_many),
                static_cast<double>(plan.placement.height_bytes) / static_cast<double>(LowerBound(steps[out])),
                times[10]);
  }
}
