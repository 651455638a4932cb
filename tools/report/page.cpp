#include "tools/report/page.h"

#include <array>
#include <string_view>

#include "tools/failure.h"
#include "tools/report/assets.h"

namespace stalloc::tools::report {
namespace {

// In JSON "<" stands in strings only, where it may be written like this: no string can end the script element.
std::string WithinScript(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

void CheckPage() {
  if (!assets::Library().empty()) return;
  throw Failure(ExitCode::kInternal,
                "this stalloc was built without D3, which draws the report: tools/setup installs it, then build again");
}

std::string Page(const Data& data) {
  const std::string figures =
      WithinScript(data.figures.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  const std::array<std::pair<std::string_view, std::string_view>, 6> parts = {{{"@style@", assets::Style()},
                                                                               {"@license@", assets::License()},
                                                                               {"@data@", figures},
                                                                               {"@blocks@", data.blocks},
                                                                               {"@library@", assets::Library()},
                                                                               {"@scripts@", assets::Scripts()}}};
  // One pass: what is put in is not looked at again.
  std::string page;
  std::string_view rest = assets::Frame();
  while (!rest.empty()) {
    std::size_t at = std::string_view::npos;
    const std::pair<std::string_view, std::string_view>* next = nullptr;
    for (const auto& part : parts) {
      if (const std::size_t found = rest.find(part.first); found < at) {
        at = found;
        next = &part;
      }
    }
    page += rest.substr(0, at);
    if (next == nullptr) break;
    page += next->second;
    rest.remove_prefix(at + next->first.size());
  }
  return page;
}

}  // namespace stalloc::tools::report
