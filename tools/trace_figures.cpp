#include "tools/trace_figures.h"

#include <algorithm>
#include <tuple>

namespace stalloc::tools {
namespace {

using planner::TraceEvent;

// What each call site holds when event `peak_event` has happened.
void CountAtPeak(const planner::Trace& trace, TraceFigures* figures) {
  std::unordered_map<std::uint64_t, const TraceEvent*> live;
  for (std::size_t k = 0; k <= figures->peak_event && k < trace.events.size(); ++k) {
    const TraceEvent& event = trace.events[k];
    if (event.op == TraceEvent::Op::kAllocate) {
      live[event.block] = &event;
    } else {
      live.erase(event.block);
    }
  }
  for (const auto& [block, event] : live) figures->sites[event->call_site].at_peak_bytes += event->size_bytes;
}

}  // namespace

TraceFigures FiguresOf(const planner::Trace& trace) {
  TraceFigures figures;
  std::unordered_map<std::uint64_t, std::uint64_t> site_of;
  for (std::size_t k = 0; k < trace.events.size(); ++k) {
    const TraceEvent& event = trace.events[k];
    figures.streams.insert(event.stream);
    figures.threads.insert(event.thread);
    figures.devices.insert(event.device);
    StepFigures* step = trace.steps.empty() ? nullptr : &figures.steps[trace.steps[k]];
    if (event.op == TraceEvent::Op::kAllocate) {
      ++figures.allocations;
      figures.bytes += event.size_bytes;
      figures.live_bytes += event.size_bytes;
      if (figures.live_bytes >= figures.peak_live_bytes) {
        figures.peak_live_bytes = figures.live_bytes;
        figures.peak_event = k;
      }
      if (step != nullptr) {
        ++step->requests;
        step->bytes += event.size_bytes;
      }
      site_of.emplace(event.block, event.call_site);
      SiteFigures& site = figures.sites[event.call_site];
      ++site.requests;
      site.live_bytes += event.size_bytes;
      site.peak_live_bytes = std::max(site.peak_live_bytes, site.live_bytes);
    } else {
      ++figures.frees;
      figures.live_bytes -= std::min(figures.live_bytes, event.size_bytes);
      if (const auto site = site_of.find(event.block); site != site_of.end()) {
        figures.sites[site->second].live_bytes -= event.size_bytes;
        site_of.erase(site);
      }
    }
    if (step != nullptr) step->peak_live_bytes = std::max(step->peak_live_bytes, figures.live_bytes);
  }
  CountAtPeak(trace, &figures);
  return figures;
}

std::vector<std::uint64_t> LargestCallSites(const TraceFigures& figures, std::size_t top) {
  std::vector<std::uint64_t> sites;
  for (const auto& [site, of_site] : figures.sites)
    if (site != 0) sites.push_back(site);
  std::sort(sites.begin(), sites.end(), [&](std::uint64_t a, std::uint64_t b) {
    const SiteFigures& of_a = figures.sites.at(a);
    const SiteFigures& of_b = figures.sites.at(b);
    return std::tuple(of_b.at_peak_bytes, of_b.peak_live_bytes, a) <
           std::tuple(of_a.at_peak_bytes, of_a.peak_live_bytes, b);
  });
  if (top != 0 && sites.size() > top) sites.resize(top);
  return sites;
}

std::string ShortFrame(const std::string& frame) {
  const std::size_t place = frame.rfind(" (");
  const bool is_line = place != std::string::npos && frame.find(':', place) != std::string::npos;
  return is_line ? frame : frame.substr(0, place);
}

std::vector<CallSiteName> NamesOf(const planner::Trace& trace, const std::vector<std::uint64_t>& sites) {
  constexpr std::size_t kFramesShown = 3;
  // The way through the framework's allocator is the same for most sites: the innermost functions that more than a
  // third of the sites have say little.
  std::unordered_map<std::string, std::size_t> sites_with;
  std::size_t known = 0;
  std::vector<CallSiteName> names(sites.size());
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const auto at = trace.frames.find(sites[i]);
    if (at == trace.frames.end()) continue;
    ++known;
    names[i].frames = at->second;
    std::set<std::string> once;
    for (const std::string& frame : at->second) once.insert(ShortFrame(frame));
    for (const std::string& name : once) ++sites_with[name];
  }
  if (known == 0) return {};
  for (CallSiteName& name : names) {
    const auto says_little = [&](const std::string& frame) {
      const std::size_t with = sites_with[ShortFrame(frame)];
      return with > 1 && 3 * with > known;
    };
    auto first = std::find_if_not(name.frames.begin(), name.frames.end(), says_little);
    if (first == name.frames.end()) first = name.frames.begin();
    std::string last;
    std::size_t shown = 0;
    for (auto frame = first; frame != name.frames.end() && shown < kFramesShown; ++frame) {
      const std::string shorter = ShortFrame(*frame);
      if (shorter == last) continue;  // an overload that calls another
      name.place += (name.place.empty() ? "" : " < ") + shorter;
      last = shorter;
      ++shown;
    }
  }
  return names;
}

}  // namespace stalloc::tools
