#include "tools/report/flame.h"

#include <map>
#include <memory>

#include "tools/text.h"

namespace stalloc::tools::report {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t kLeastShare = 1000;

struct Node {
  std::uint64_t own_bytes = 0;
  std::uint64_t bytes = 0;
  std::map<std::string, std::unique_ptr<Node>> children;
};

ordered_json JsonOf(const std::string& name, const Node& node, std::uint64_t least_bytes) {
  ordered_json json = {{"n", name}};
  if (node.own_bytes != 0) json["s"] = node.own_bytes;
  std::uint64_t small_bytes = 0;
  for (const auto& [callee, child] : node.children) {
    if (child->bytes < least_bytes) {
      small_bytes += child->bytes;
    } else {
      json["c"].push_back(JsonOf(callee, *child, least_bytes));
    }
  }
  if (small_bytes != 0) json["c"].push_back({{"n", "(smaller ones)"}, {"s", small_bytes}});
  return json;
}

}  // namespace

ordered_json FlameTree(const planner::Trace& trace, const TraceFigures& figures) {
  Node root;
  for (const auto& [site, of_site] : figures.sites) {
    if (of_site.at_peak_bytes == 0) continue;
    Node* node = &root;
    node->bytes += of_site.at_peak_bytes;
    const auto descend = [&](const std::string& name) {
      std::unique_ptr<Node>& child = node->children[name];
      if (child == nullptr) child = std::make_unique<Node>();
      node = child.get();
      node->bytes += of_site.at_peak_bytes;
    };
    const auto frames = trace.frames.find(site);
    if (site == 0) {
      descend("(call site not taken)");
    } else if (frames == trace.frames.end()) {
      descend("(no names in the trace)");
      descend(Format("%016llx", static_cast<unsigned long long>(site)));
    } else {
      std::string caller;
      for (auto frame = frames->second.rbegin(); frame != frames->second.rend(); ++frame) {
        const std::string name = ShortFrame(*frame);
        if (name == caller) continue;  // an overload that calls another
        descend(name);
        caller = name;
      }
    }
    node->own_bytes += of_site.at_peak_bytes;
  }
  ordered_json json = JsonOf("all", root, root.bytes / kLeastShare);
  json["v"] = root.bytes;
  return json;
}

}  // namespace stalloc::tools::report
