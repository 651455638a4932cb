#include "tools/report/data.h"

#include <algorithm>
#include <map>

#include "tools/plan_search.h"
#include "tools/planning_input.h"
#include "tools/report/flame.h"
#include "tools/report/map.h"
#include "tools/summary.h"
#include "tools/text.h"
#include "tools/trace_figures.h"

namespace stalloc::tools::report {
namespace {

using nlohmann::ordered_json;
using planner::TraceEvent;

constexpr std::size_t kIntervals = 1500;         // of the curves
constexpr std::size_t kMostRectangles = 60'000;  // blocks that the page has one by one
constexpr std::size_t kMostIterations = 2000;    // bars
constexpr std::size_t kCallSites = 30;

// The highest value of each interval of the run.
class Curve {
 public:
  explicit Curve(std::size_t interval_events) : interval_events_(interval_events) {}
  void Add(std::size_t event, std::uint64_t bytes) {
    const std::size_t at = event / interval_events_;
    if (at >= highest_.size()) highest_.resize(at + 1, highest_.empty() ? 0 : highest_.back());
    if (at != last_ || event == 0) highest_[at] = 0;
    last_ = at;
    highest_[at] = std::max(highest_[at], bytes);
  }
  const std::vector<std::uint64_t>& values() const { return highest_; }

 private:
  const std::size_t interval_events_;
  std::size_t last_ = 0;
  std::vector<std::uint64_t> highest_;
};

ordered_json AllocatorRow(const ReplayResult& result, const Curve& reserved) {
  return {{"name", result.allocator},
          {"peak_reserved_bytes", result.peak_reserved_bytes},
          {"fragmentation", result.Fragmentation()},
          {"planned", result.planned},
          {"online", result.online},
          {"map_calls", result.map_calls},
          {"reserved", reserved.values()}};
}

ordered_json IdleColumns(const std::vector<IdleSample>& samples) {
  ordered_json columns = {{"event", ordered_json::array()},
                          {"usable", ordered_json::array()},
                          {"ordered", ordered_json::array()},
                          {"remainder", ordered_json::array()},
                          {"view", ordered_json::array()}};
  for (const IdleSample& sample : samples) {
    columns["event"].push_back(sample.event);
    columns["usable"].push_back(sample.idle.usable_bytes);
    columns["ordered"].push_back(sample.idle.ordered_bytes);
    columns["remainder"].push_back(sample.idle.remainder_bytes);
    columns["view"].push_back(sample.idle.view_bytes);
  }
  return columns;
}

// What a request is, apart from when it was made: size, stream, call site.
using Kind = std::tuple<std::uint64_t, std::uint32_t, std::uint64_t>;

// The share of requests that both have, of those of the larger one.
double Alike(const std::map<Kind, std::uint64_t>& a, const std::map<Kind, std::uint64_t>& b) {
  std::uint64_t both = 0;
  std::uint64_t of_a = 0;
  std::uint64_t of_b = 0;
  for (const auto& [kind, count] : a) {
    of_a += count;
    if (const auto other = b.find(kind); other != b.end()) both += std::min(count, other->second);
  }
  for (const auto& [kind, count] : b) of_b += count;
  return static_cast<double>(both) / static_cast<double>(std::max<std::uint64_t>(1, std::max(of_a, of_b)));
}

// The last ones, where there are very many. Step 0 is what comes before the first iteration.
ordered_json IterationRows(const planner::Trace& trace, const TraceFigures& figures) {
  ordered_json rows = ordered_json::array();
  if (trace.steps.empty()) return rows;
  std::map<std::uint32_t, std::map<Kind, std::uint64_t>> kinds;
  for (std::size_t k = 0; k < trace.events.size(); ++k) {
    const TraceEvent& event = trace.events[k];
    if (event.op == TraceEvent::Op::kAllocate && trace.steps[k] != 0)
      ++kinds[trace.steps[k]][{event.size_bytes, event.stream, event.call_site}];
  }
  std::size_t left_out = kinds.size() > kMostIterations ? kinds.size() - kMostIterations : 0;
  const std::map<Kind, std::uint64_t>* before = nullptr;
  for (const auto& [step, of_step] : kinds) {
    const StepFigures& step_figures = figures.steps.at(step);
    ordered_json row = {{"step", step},
                        {"requests", step_figures.requests},
                        {"bytes", step_figures.bytes},
                        {"peak_live_bytes", step_figures.peak_live_bytes},
                        {"alike", nullptr}};
    if (before != nullptr) row["alike"] = Alike(*before, of_step);
    before = &of_step;
    if (left_out > 0) {
      --left_out;
      continue;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

ordered_json PlanOf(const planner::Trace& trace, const DataOptions& options) {
  ordered_json plan = {{"note", ""}, {"rows", ordered_json::array()}, {"report", nullptr}};
  const auto row = [&](const char* name, const std::string& value) {
    plan["rows"].push_back({{"name", name}, {"value", value}});
  };
  PlanningInput input = PlanningInputOf(options.file, trace, std::nullopt);
  PlanSearch search;
  search.time_limit = options.plan_time_limit;
  const PlanAnswer answer = SearchPlan(input, search);
  if (answer.solution.status == planner::Solution::Status::kMalformed || answer.violation) {
    plan["note"] = "No plan could be made: " + (answer.violation ? *answer.violation : answer.solution.error);
    return plan;
  }
  const ordered_json found = ordered_json::parse(PlanJson(input, answer, options.file, planner::kUnlimited));
  plan["report"] = found;
  plan["note"] =
      (input.step ? "Step " + std::to_string(*input.step) + ", the last whole one, as stalloc plan places it."
                  : "All of the trace, as stalloc plan places it: no iteration was found.");
  const auto bytes = [](std::uint64_t count) { return HumanBytes(count) + " (" + Grouped(count) + " bytes)"; };
  row("requests", Grouped(found.at("requests").get<std::uint64_t>()));
  row("lower bound", bytes(found.at("lower_bound_bytes").get<std::uint64_t>()));
  row("arena of the plan", bytes(found.at("arena_bytes").get<std::uint64_t>()));
  row("arena / lower bound", Format("%.5f", found.at("ratio").get<double>()));
  row("found by", found.at("method").get<std::string>() + Format(" in %.2f s", found.at("seconds").get<double>()));
  if (answer.pages) {
    row("pages of 2 MiB", Grouped(answer.pages->page_count) + ", at least " + Grouped(answer.pages->lower_bound_pages));
    row("contiguous alone", Grouped(answer.pages->contiguous_pages));
    row("paged wherever possible", Grouped(answer.pages->paged_pages));
  }
  return plan;
}

// One iteration where there are some, otherwise a twenty-fifth of the run; within what has all its blocks.
std::pair<std::size_t, std::size_t> AroundThePeak(const planner::Trace& trace, std::size_t peak,
                                                  const PackedMap& packed) {
  const std::size_t events = trace.events.size();
  std::size_t first = peak > events / 50 ? peak - events / 50 : 0;
  std::size_t last = std::min(events, peak + events / 50);
  if (!trace.steps.empty() && trace.steps[peak] != 0) {
    const auto step = std::equal_range(trace.steps.begin(), trace.steps.end(), trace.steps[peak]);
    first = static_cast<std::size_t>(step.first - trace.steps.begin());
    last = static_cast<std::size_t>(step.second - trace.steps.begin());
  }
  return {std::max<std::size_t>(first, packed.detail_first), std::min<std::size_t>(last, packed.detail_last)};
}

ordered_json SiteNames(const planner::Trace& trace, const std::vector<std::uint64_t>& sites) {
  const std::vector<CallSiteName> names = NamesOf(trace, sites);
  ordered_json list = ordered_json::array();
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (sites[i] == 0) {
      list.push_back("call site not taken");
    } else if (names.empty() || names[i].frames.empty()) {
      list.push_back("call site " + Format("%016llx", static_cast<unsigned long long>(sites[i])));
    } else {
      list.push_back(names[i].place);
    }
  }
  return list;
}

ordered_json TimesOf(const planner::Trace& trace, std::size_t interval_events) {
  ordered_json times = ordered_json::array();
  if (trace.events.front().time_ns == trace.events.back().time_ns) return times;
  for (std::size_t k = 0; k < trace.events.size(); k += interval_events)
    times.push_back(trace.events[k].time_ns - trace.events.front().time_ns);
  return times;
}

ordered_json SettingsOf(const DataOptions& options) {
  ordered_json rows = ordered_json::array();
  const auto row = [&](const char* name, const std::string& value) {
    rows.push_back({{"name", name}, {"value", value}});
  };
  row("stalloc", STALLOC_VERSION);
  row("growth (STALLOC_GROWTH)", options.growth.empty() ? "auto" : options.growth);
  row("planning (STALLOC_PLANNING)", options.replay.planning ? "1" : "0");
  row("requests between two looks of the learner", Grouped(options.replay.look_every));
  row("memory of the simulated device", HumanBytes(options.replay.device_memory_bytes));
  row("other allocators", "models, written from public documentation and what the allocators are seen to do");
  return rows;
}

}  // namespace

Data DataOf(const std::string& format, const planner::Trace& whole, const DataOptions& options) {
  const planner::Trace trace = OneDevice(whole);
  if (trace.events.empty()) throw Failure(ExitCode::kBadInput, options.file + ": holds no request");
  Data data;
  ordered_json& figures = data.figures;
  ordered_json& show = figures["show"];
  show["file"] = options.file;
  show["format"] = format;
  Summarise(whole, SummaryOptions{kCallSites}, &show);
  for (ordered_json& row : show["largest_call_sites"]) row.erase("frames");
  show.erase("steps");

  const TraceFigures of_trace = FiguresOf(trace);
  const std::size_t events = trace.events.size();
  const std::size_t interval_events = std::max<std::size_t>(1, (events + kIntervals - 1) / kIntervals);
  figures["events"] = events;
  figures["device"] = trace.events.front().device;
  figures["interval_events"] = interval_events;
  figures["peak_event"] = of_trace.peak_event;
  figures["time_ns"] = TimesOf(trace, interval_events);

  Curve live(interval_events);
  Curve reserved(interval_events);
  MapRecorder recorder(trace, [&](std::size_t event, std::uint64_t live_bytes, std::uint64_t reserved_bytes) {
    live.Add(event, live_bytes);
    reserved.Add(event, reserved_bytes);
  });
  StallocReplayOptions replay = options.replay;
  replay.watcher = &recorder;
  const std::vector<ReplayResult> of_stalloc = ReplayStalloc(trace, replay);
  recorder.Finish();
  figures["allocators"].push_back(AllocatorRow(of_stalloc.back(), reserved));
  figures["live"] = live.values();
  for (const std::string& name : AllocatorModelNames()) {
    Curve held(interval_events);
    const ReplayResult result =
        ReplayModel(trace, name, *MakeAllocatorModel(name),
                    [&](std::size_t event, std::uint64_t, std::uint64_t bytes) { held.Add(event, bytes); });
    figures["allocators"].push_back(AllocatorRow(result, held));
  }
  figures["idle"] = IdleColumns(recorder.idle());

  PackedMap packed = Pack(recorder, events, of_trace.peak_event, kMostRectangles);
  const auto [first, last] = AroundThePeak(trace, of_trace.peak_event, packed);
  figures["map"] = {{"rectangles", packed.rectangles},
                    {"held", packed.held},
                    {"columns", PackedMap::kColumns},
                    {"rows", PackedMap::kRows},
                    {"address_bytes", std::uint64_t{recorder.granules()} * 512},
                    {"detail_first", packed.detail_first},
                    {"detail_last", packed.detail_last},
                    {"peak_first", first},
                    {"peak_last", last},
                    {"sites", SiteNames(trace, recorder.sites())}};
  data.blocks = std::move(packed.base64);
  figures["has_frames"] = !trace.frames.empty();
  figures["flame"] = FlameTree(trace, of_trace);
  figures["iterations"] = IterationRows(trace, of_trace);
  figures["plan"] = PlanOf(trace, options);
  figures["settings"] = SettingsOf(options);
  return data;
}

}  // namespace stalloc::tools::report
