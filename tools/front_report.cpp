#include "tools/front_report.h"

#include <nlohmann/json.hpp>

#include "tools/text.h"

namespace stalloc::tools {
namespace {

nlohmann::ordered_json MeritsJson(const planner::PlanMerits& merits) {
  return {{"pages", merits.pages},
          {"handles", merits.handles},
          {"waits", merits.waits},
          {"moves", merits.moves},
          {"headroom", merits.headroom}};
}

std::string Row(const planner::PlanMerits& merits, const std::string& method) {
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  return Format("%10llu %10llu %10llu %10llu %8.1f %%  %s\n", number(merits.pages), number(merits.handles),
                number(merits.waits), number(merits.moves), 100 * merits.headroom, method.c_str());
}

}  // namespace

std::string FrontJson(const PlanningInput& input, const FrontAnswer& answer, const std::string& file) {
  nlohmann::ordered_json json;
  json["file"] = file;
  json["format"] = input.format;
  if (input.step) json["step"] = *input.step;
  json["requests"] = input.problem.requests.size();
  json["page_bytes"] = planner::kPageBytes;
  json["lower_bound_pages"] = answer.front.lower_bound_pages;
  json["seconds"] = answer.seconds;
  json["evaluations"] = answer.front.evaluations;
  json["found"] = answer.front.found;
  json["online"] = MeritsJson(answer.online);
  json["choices"] = nlohmann::ordered_json::array();
  for (const planner::PlanChoice& choice : answer.front.choices) {
    nlohmann::ordered_json entry = MeritsJson(choice.merits);
    entry["method"] = choice.method;
    entry["chosen"] = &choice == answer.chosen;
    json["choices"].push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string FrontText(const PlanningInput& input, const FrontAnswer& answer, const std::string& file) {
  std::string text = file + ": " + input.format;
  if (input.step) text += Format(", step %u", *input.step);
  text += ", " + Grouped(input.problem.requests.size()) + " requests; no plan has fewer than " +
          Grouped(answer.front.lower_bound_pages) + " pages of 2 MiB\n";
  text += "       pages    handles      waits      moves   headroom\n";
  for (const planner::PlanChoice& choice : answer.front.choices) {
    text += Row(choice.merits, choice.method + (&choice == answer.chosen ? "  <- chosen" : ""));
  }
  text += Row(answer.online, "(without a plan)");
  text += Format(
      "  %zu plans of %llu found in %.1f s, none better than another in every column: fewer is better, but more "
      "headroom\n",
      answer.front.choices.size(), static_cast<unsigned long long>(answer.front.found), answer.seconds);
  text +=
      "  pages     of 2 MiB that the step takes up\n"
      "  handles   of memory to map for it\n"
      "  waits     of one stream for another, in each step\n"
      "  moves     requests that lie elsewhere than without a plan\n"
      "  headroom  share of the bytes that could grow by an eighth where they lie\n"
      "  chosen    is the one with the fewest handles to map that --capacity allows; --output writes it\n";
  return text;
}

}  // namespace stalloc::tools
