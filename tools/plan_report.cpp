#include "tools/plan_report.h"

#include <nlohmann/json.hpp>

#include "tools/text.h"

namespace stalloc::tools {
namespace {

const char* StatusName(planner::Solution::Status status) {
  switch (status) {
    case planner::Solution::Status::kOptimal:
      return "optimal";
    case planner::Solution::Status::kFeasible:
      return "feasible";
    case planner::Solution::Status::kInfeasible:
      return "infeasible";
    case planner::Solution::Status::kMalformed:
      break;
  }
  return "malformed";
}

double Ratio(const planner::Solution& solution) {
  if (solution.lower_bound_bytes == 0) return 1.0;
  return static_cast<double>(solution.placement.height_bytes) / static_cast<double>(solution.lower_bound_bytes);
}

nlohmann::ordered_json PagesJson(const PlanAnswer& answer) {
  return {{"page_bytes", planner::kPageBytes},
          {"pages", answer.pages->page_count},
          {"lower_bound_pages", answer.pages->lower_bound_pages},
          {"contiguous_pages", answer.pages->contiguous_pages},
          {"paged_pages", answer.pages->paged_pages},
          {"handles_to_map", answer.pages->handles_to_map},
          {"seconds", answer.pages_seconds}};
}

}  // namespace

std::string PlanJson(const PlanningInput& input, const PlanAnswer& answer, const std::string& file,
                     std::uint64_t capacity_bytes) {
  const planner::Solution& solution = answer.solution;
  nlohmann::ordered_json json;
  json["file"] = file;
  json["format"] = input.format;
  if (input.step) json["step"] = *input.step;
  json["requests"] = input.problem.requests.size();
  json["lower_bound_bytes"] = solution.lower_bound_bytes;
  json["arena_bytes"] = solution.placement.height_bytes;
  json["ratio"] = Ratio(solution);
  json["seconds"] = answer.seconds;
  json["valid"] = !answer.violation;
  json["status"] = StatusName(solution.status);
  json["method"] = solution.method;
  if (answer.interrupted) json["interrupted"] = true;
  if (capacity_bytes != planner::kUnlimited) json["capacity_bytes"] = capacity_bytes;
  if (answer.pages) json["page_plan"] = PagesJson(answer);
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string PlanText(const PlanningInput& input, const PlanAnswer& answer, const std::string& file) {
  const planner::Solution& solution = answer.solution;
  const bool lowest = solution.status == planner::Solution::Status::kOptimal;
  std::string text = file + ": " + input.format;
  if (input.step) text += Format(", step %u", *input.step);
  text += ", " + Grouped(input.problem.requests.size()) + " requests\n";
  text += "  arena        " + Grouped(solution.placement.height_bytes) + " bytes (" +
          HumanBytes(solution.placement.height_bytes) + ")\n";
  text += "  lower bound  " + Grouped(solution.lower_bound_bytes) + " bytes; the arena is " +
          Format("%.5f", Ratio(solution)) + " of it" + (lowest ? ", as low as can be" : "") + "\n";
  text += "  found by     " + solution.method + Format(" in %.3f s", answer.seconds) +
          (answer.violation ? "" : "; checked, valid") + (answer.interrupted ? "; interrupted, the best so far" : "") +
          "\n";
  if (answer.pages) {
    text += "  in pages     " + Grouped(answer.pages->page_count) + " of 2 MiB, at least " +
            Grouped(answer.pages->lower_bound_pages) + "; contiguous alone " + Grouped(answer.pages->contiguous_pages) +
            ", paged wherever possible " + Grouped(answer.pages->paged_pages) +
            Format(" (%.3f s)\n", answer.pages_seconds);
  }
  return text;
}

}  // namespace stalloc::tools
