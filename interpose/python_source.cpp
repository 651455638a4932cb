#include "python_source.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "python_statements.h"
#include "runtime/call_sites/program_fingerprint.h"

namespace stalloc::interpose {
namespace {

constexpr std::size_t kMostFiles = 200;
constexpr std::size_t kMostLooks = 4000;  // for files and folders that may not be there
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

// Modes of torch.compile that use CUDA graph trees, by name, the switch beneath them, and what asks the allocator for
// pools or for its history. PyTorch refuses each on the cudaMallocAsync backend ("does not yet support ..."), or fails
// there: a captured backward pass frees on streams that are no part of the capture ("unjoined work").
constexpr std::string_view kFeatures[] = {"reduce-overhead", "max-autotune", "triton.cudagraphs",
                                          "\"cudagraphs\"",  "'cudagraphs'", "_record_memory_history",
                                          "memory_snapshot", "use_mem_pool", "make_graphed_callables"};

// What only those write who send CUDA memory to other processes themselves; python_sharing.h has the others.
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
      if (!rest.empty() && IsPythonWord(rest.front())) continue;
      if (rest.find("True") == std::string_view::npos) continue;
    }
    return feature;
  }
  for (const std::string_view feature : kSharing)
    if (line.find(feature) != std::string_view::npos) return feature;
  return {};
}

bool Shares(std::string_view feature) {
  return std::find(std::begin(kSharing), std::end(kSharing), feature) != std::end(kSharing);
}

// The modules of a program that lie beside its script, followed along its imports.
class Source {
 public:
  explicit Source(std::string folder) : folder_(std::move(folder)) {}

  void Add(const std::string& path) {
    if (IsThere(path) && waiting_.size() < kMostFiles && seen_.insert(path).second) waiting_.push_back(path);
  }
  void AddModule(const std::string& folder, const std::string& dotted) {
    std::string path = folder;
    for (std::size_t begin = 0; begin <= dotted.size();) {
      const std::size_t end = std::min(dotted.find('.', begin), dotted.size());
      path += '/' + dotted.substr(begin, end - begin);
      Add(path + ".py");
      if (!IsThere(path)) return;
      Add(path + "/__init__.py");
      begin = end + 1;
    }
    Add(path + "/__main__.py");
  }

  // Reads what has been added, and what that imports, until nothing more can be found.
  void Read() {
    for (std::size_t next = 0; next < waiting_.size() && !signs_.sharing; ++next) {
      const std::string path = waiting_[next];
      std::ifstream file(path, std::ios::binary);
      if (!file) continue;
      const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
      bytes_ += text.size();
      if (bytes_ > kMostBytes) return;
      ReadText(text, path);
    }
  }

  void ReadText(std::string_view text, const std::string& path) {
    std::size_t number = 1;
    for (std::size_t begin = 0; begin < text.size(); ++number) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      ReadLine(text.substr(begin, end - begin), path, number);
      begin = end + 1;
    }
    const std::size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
    const std::vector<PythonStatement> statements = StatementsOf(text);
    std::vector<PythonImport> imports;
    for (const PythonStatement& statement : statements)
      for (PythonImport& one : ImportsOf(statement)) imports.push_back(std::move(one));
    for (const PythonImport& one : imports) Follow(one, folder);
    sharing_.Add(statements, imports, path, [&](const PythonImport& one) { return IsOwn(one.module, folder); });
    if (!signs_.sharing) signs_.sharing = sharing_.Found();
  }

  // `number` 0: the place has no lines.
  void ReadLine(std::string_view line, const std::string& place, std::size_t number) {
    const std::string_view feature = FeatureIn(line);
    if (feature.empty()) return;
    std::optional<SourceSign>& sign = Shares(feature) ? signs_.sharing : signs_.own_allocator;
    if (!sign) sign = {std::string(feature), number == 0 ? place : place + " line " + std::to_string(number)};
  }

  const SourceSigns& Signs() const { return signs_; }

 private:
  // Where a module of this name would lie, and its name there: "a.b" beside the script, ".b" and "..b" beside the file.
  std::pair<std::string, std::string> Place(const std::string& module, const std::string& folder) const {
    const std::size_t dots = std::min(module.find_first_not_of('.'), module.size());
    if (dots == 0) return {folder_, module};
    std::string root = folder;
    for (std::size_t up = 1; up < dots; ++up) root += "/..";
    return {root, module.substr(dots)};
  }

  void Follow(const PythonImport& one, const std::string& folder) {
    const auto [root, module] = Place(one.module, folder);
    const bool whole = one.name.empty() || one.name == "*";
    if (whole && !module.empty()) AddModule(root, module);
    if (!whole) AddModule(root, module.empty() ? one.name : module + '.' + one.name);
  }

  bool IsOwn(const std::string& name, const std::string& folder) {
    const auto [root, module] = Place(name, folder);
    const std::string path = root + '/' + module.substr(0, module.find('.'));
    return name.starts_with('.') || IsThere(path + ".py") || IsThere(path);
  }

  bool IsThere(const std::string& path) {
    const auto [place, first] = known_.try_emplace(path, false);
    if (first && known_.size() <= kMostLooks) place->second = ::access(path.c_str(), F_OK) == 0;
    return place->second;
  }

  const std::string folder_;  // where modules are looked for first
  std::set<std::string> seen_;
  std::map<std::string, bool> known_;  // paths that were looked for, and whether they are there
  std::vector<std::string> waiting_;   // files to be read, those that have been read first
  std::size_t bytes_ = 0;
  SharingSigns sharing_;
  SourceSigns signs_;
};

}  // namespace

SourceSigns ReadSource(std::span<const std::string> arguments) {
  if (arguments.empty()) return {};
  const std::string script = runtime::ScriptOf(arguments);
  const bool file = !script.empty() && !script.starts_with('-');
  const std::size_t slash = script.rfind('/');
  Source source(file && slash != std::string::npos ? script.substr(0, slash) : ".");
  for (const std::string& argument : arguments.subspan(1))
    // A script's text, given by -c, is read by lines below.
    if (argument.find('\n') == std::string::npos) source.ReadLine(argument, "the command line", 0);
  if (script.starts_with("-c ")) {
    source.ReadText(std::string_view(script).substr(3), "-c");
  } else if (script.starts_with("-m ")) {
    source.AddModule(".", script.substr(3));
  } else if (file) {
    source.Add(script);
    source.Add(script + "/__main__.py");  // a folder is a script too
  }
  source.Read();
  return source.Signs();
}

}  // namespace stalloc::interpose
