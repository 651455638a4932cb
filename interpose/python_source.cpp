#include "python_source.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include "runtime/program_fingerprint.h"

namespace stalloc::interpose {
namespace {

constexpr std::size_t kMostFiles = 200;
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

bool IsWord(char c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

// Modes of torch.compile that use CUDA graph trees, by name, the switch beneath them, and what asks the allocator for
// pools or for its history. PyTorch refuses each on the cudaMallocAsync backend ("does not yet support ...").
constexpr std::string_view kFeatures[] = {"reduce-overhead", "max-autotune", "triton.cudagraphs",
                                          "\"cudagraphs\"",  "'cudagraphs'", "_record_memory_history",
                                          "memory_snapshot", "use_mem_pool"};

// What only those write who send CUDA memory to other processes themselves. A tensor put into a queue of
// torch.multiprocessing looks the same on the CPU, as data loaders and mp.spawn do, and is nobody's sign.
constexpr std::string_view kSharing[] = {"torch.multiprocessing.reductions", "rebuild_cuda_tensor", "_share_cuda_",
                                         "_new_shared_cuda"};

// The feature that a line names outside a comment; empty if there is none.
std::string_view FeatureIn(std::string_view line) {
  line = line.substr(0, line.find('#'));
  // What an option may be is not what it is: argparse's choices=[...].
  if (const std::size_t choices = line.find("choices"); choices != std::string_view::npos) {
    const std::size_t end = line.find_first_of("])}", choices);
    const std::string_view before = FeatureIn(line.substr(0, choices));
    return !before.empty() || end == std::string_view::npos ? before : FeatureIn(line.substr(end));
  }
  for (const std::string_view feature : kFeatures) {
    const std::size_t at = line.find(feature);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = line.substr(at + feature.size());
    if (feature == "max-autotune" && rest.starts_with("-no-cudagraphs")) continue;
    if (feature == "triton.cudagraphs") {
      // The switch itself and not one of those whose names begin so; and on, not off.
      if (!rest.empty() && IsWord(rest.front())) continue;
      if (rest.find("True") == std::string_view::npos) continue;
    }
    return feature;
  }
  for (const std::string_view feature : kSharing)
    if (line.find(feature) != std::string_view::npos) return feature;
  return {};
}

AllocatorFeature Found(std::string_view feature, std::string where) {
  const bool shares = std::find(std::begin(kSharing), std::end(kSharing), feature) != std::end(kSharing);
  return {std::string(feature), std::move(where), shares};
}

// The modules of a program that lie beside its script, followed along its imports.
class Source {
 public:
  explicit Source(std::string folder) : folder_(std::move(folder)) {}

  void Add(const std::string& path) {
    if (seen_.size() < kMostFiles && seen_.insert(path).second) waiting_.push_back(path);
  }
  void AddModule(const std::string& folder, const std::string& dotted) {
    std::string path = folder;
    for (std::size_t begin = 0; begin <= dotted.size();) {
      const std::size_t end = std::min(dotted.find('.', begin), dotted.size());
      path += '/' + dotted.substr(begin, end - begin);
      Add(path + ".py");
      Add(path + "/__init__.py");
      begin = end + 1;
    }
    Add(path + "/__main__.py");
  }

  std::optional<AllocatorFeature> Search() {
    for (std::size_t next = 0; next < waiting_.size(); ++next) {
      const std::string path = waiting_[next];
      std::ifstream file(path, std::ios::binary);
      if (!file) continue;
      const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
      bytes_ += text.size();
      if (bytes_ > kMostBytes) return std::nullopt;
      if (auto found = SearchText(text, path)) return found;
    }
    return std::nullopt;
  }

  std::optional<AllocatorFeature> SearchText(std::string_view text, const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < text.size(); ++number) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = text.substr(begin, end - begin);
      if (const std::string_view feature = FeatureIn(line); !feature.empty())
        return Found(feature, path + " line " + std::to_string(number + 1));
      Follow(line, folder);
      begin = end + 1;
    }
    return std::nullopt;
  }

 private:
  // "import a.b, c" and "from a.b import c, d", also ".b" and "..b"; lists over several lines as far as the first goes.
  void Follow(std::string_view line, const std::string& folder) {
    std::vector<std::string> words;
    std::string word;
    for (const char c : line) {
      if (IsWord(c) || c == '.') {
        word += c;
      } else {
        if (!word.empty()) words.push_back(std::move(word));
        word.clear();
        if (c == '#') break;
      }
    }
    if (!word.empty()) words.push_back(std::move(word));
    if (words.size() < 2) return;
    if (words[0] == "import") {
      for (std::size_t i = 1; i < words.size(); ++i) AddModule(folder_, words[i]);
    } else if (words[0] == "from" && words.size() > 3 && words[2] == "import") {
      std::string module = words[1];
      std::string root = folder_;
      if (const std::size_t dots = std::min(module.find_first_not_of('.'), module.size()); dots != 0) {
        root = folder;
        for (std::size_t up = 1; up < dots; ++up) root += "/..";
        module.erase(0, dots);
      }
      for (std::size_t i = 3; i < words.size(); ++i)
        AddModule(root, module.empty() ? words[i] : module + '.' + words[i]);
    }
  }

  const std::string folder_;  // where modules are looked for first
  std::set<std::string> seen_;
  std::vector<std::string> waiting_;
  std::size_t bytes_ = 0;
};

}  // namespace

std::optional<AllocatorFeature> FindAllocatorFeature(std::span<const std::string> arguments) {
  if (arguments.empty()) return std::nullopt;
  for (const std::string& argument : arguments.subspan(1)) {
    // A script's text, given by -c, is searched by lines below.
    if (argument.find('\n') != std::string::npos) continue;
    if (const std::string_view feature = FeatureIn(argument); !feature.empty())
      return Found(feature, "the command line");
  }
  const std::string script = runtime::ScriptOf(arguments);
  if (script.starts_with("-c ")) {
    Source source(".");
    if (auto found = source.SearchText(std::string_view(script).substr(3), "-c")) return found;
    return source.Search();
  }
  if (script.starts_with("-m ")) {
    Source source(".");
    source.AddModule(".", script.substr(3));
    return source.Search();
  }
  if (script.empty()) return std::nullopt;
  const std::size_t slash = script.rfind('/');
  Source source(slash == std::string::npos ? "." : script.substr(0, slash));
  source.Add(script);
  source.Add(script + "/__main__.py");  // a folder is a script too
  return source.Search();
}

}  // namespace stalloc::interpose
