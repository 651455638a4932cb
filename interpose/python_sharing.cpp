#include "python_sharing.h"

#include <algorithm>
#include <span>

namespace stalloc::interpose {
namespace {

constexpr std::string_view kTorch = "torch.multiprocessing";
constexpr std::string_view kPython = "multiprocessing";
constexpr std::string_view kFork = "fork";  // stands for a context of this start method

// Through these, objects go to other processes; also through those of Python's own module, once PyTorch is loaded.
constexpr std::string_view kChannels[] = {"Queue", "SimpleQueue", "JoinableQueue", "Pipe", "Manager"};
// Of PyTorch's module only: Python's own is everywhere where files are to be read quickly.
constexpr std::string_view kPool = "Pool";
// Methods of tensors and modules, for those whose owner no source names.
constexpr std::string_view kShared[] = {"share_memory", "share_memory_"};

bool IsOneOf(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsIn(std::string_view name, std::string_view module) {
  return name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.');
}

std::string_view TextAt(const PythonStatement& statement, std::size_t token) {
  return token < statement.size() ? statement[token].text : std::string_view();
}

bool IsName(std::string_view text) { return !text.empty() && IsPythonWord(text.front()); }

// Does a queue, pipe or pool of this name and owner send tensors?
bool Sends(std::string_view name, std::string_view owner) {
  if (name == kPool) return IsIn(owner, kTorch);
  return IsOneOf(name, kChannels) && (owner.empty() || IsIn(owner, kTorch) || IsIn(owner, kPython));
}

// The token after which an assignment's name stands, counted from the statement's first: 0 if it is none.
std::size_t AssignmentOf(const PythonStatement& statement) {
  for (std::size_t i = 1; i + 1 < statement.size(); ++i)
    if (statement[i].text == "=") return statement[i + 1].text == "=" || !IsName(statement[i - 1].text) ? 0 : i;
  return 0;
}

// The tokens of a call's arguments, given its opening bracket.
std::span<const PythonToken> ArgumentsOf(const PythonStatement& statement, std::size_t open) {
  std::size_t depth = 0;
  for (std::size_t i = open; i < statement.size(); ++i) {
    if (statement[i].text == "(") ++depth;
    if (statement[i].text == ")" && --depth == 0) return {&statement[open] + 1, i - open - 1};
  }
  return {};
}

}  // namespace

void SharingSigns::Bind(const std::vector<PythonImport>& imports, const std::function<bool(const PythonImport&)>& own) {
  for (const PythonImport& one : imports) {
    if (one.name == "*") {
      all_names_ = all_names_ || one.module == kTorch;
      torch_ = torch_ || IsIn(one.module, kTorch);
      continue;
    }
    std::string full = one.name.empty() ? one.module : one.module + '.' + one.name;
    torch_ = torch_ || IsIn(full, kTorch);
    if (one.name.empty() && one.bound == one.module.substr(0, one.module.find('.'))) full = one.bound;
    if (own(one)) full.clear();
    // One of two, after "except ImportError": PyTorch's is meant.
    std::string& known = names_[one.bound];
    if (!IsIn(known, kTorch)) known = full;
  }
}

std::string SharingSigns::MakerOf(const PythonStatement& statement, std::size_t token) const {
  const std::span<const PythonToken> arguments = ArgumentsOf(statement, token + 1);
  const std::string_view last = arguments.empty() ? std::string_view() : arguments.back().text;
  const bool alone = arguments.size() == 1 || (arguments.size() == 3 && arguments[1].text == "=");
  if (alone && (last == "'fork'" || last == "\"fork\"")) return std::string(kFork);
  if (token > 0 && statement[token - 1].text == ".") return OwnerOf(statement, token);
  const auto imported = names_.find(statement[token].text);
  return imported != names_.end() ? imported->second : std::string();
}

std::string SharingSigns::OwnerOf(const PythonStatement& statement, std::size_t token) const {
  std::size_t first = token;
  while (first >= 2 && statement[first - 1].text == "." && IsName(statement[first - 2].text)) first -= 2;
  if (first == token) {  // behind a call, say
    if (token < 2 || statement[token - 2].text != ")") return {};
    std::size_t open = token - 2;
    for (std::size_t depth = 0;; --open) {
      if (statement[open].text == ")") ++depth;
      if (statement[open].text == "(" && --depth == 0) break;
      if (open == 0) return {};
    }
    return TextAt(statement, open - 1) == "get_context" ? MakerOf(statement, open - 1) : std::string();
  }
  if (const auto context = contexts_.find(statement[token - 2].text); context != contexts_.end())
    return context->second;
  const auto imported = names_.find(statement[first].text);
  if (imported == names_.end() || imported->second.empty()) return {};
  std::string owner = imported->second;
  for (std::size_t i = first + 1; i + 1 < token; ++i) owner += statement[i].text;
  return owner;
}

void SharingSigns::BindContexts(const PythonStatement& statement) {
  const std::size_t equals = AssignmentOf(statement);
  if (equals == 0) return;
  for (std::size_t i = equals + 1; i + 1 < statement.size(); ++i)
    if (statement[i].text == "get_context" && statement[i + 1].text == "(")
      contexts_[std::string(statement[equals - 1].text)] = MakerOf(statement, i);
}

void SharingSigns::Search(const PythonStatement& statement, const std::string& path) {
  for (std::size_t i = 0; i < statement.size(); ++i) {
    const std::string_view name = statement[i].text;
    const bool attribute = i > 0 && statement[i - 1].text == ".";
    if (attribute && name == kPython && OwnerOf(statement, i) == "torch") torch_ = true;
    if (carrier_ || !IsName(name) || TextAt(statement, i + 1) != "(") continue;
    bool sends = false;
    if (attribute) {
      sends = IsOneOf(name, kShared) || Sends(name, OwnerOf(statement, i));
    } else if (const auto imported = names_.find(name); imported != names_.end()) {
      const std::size_t dot = std::min(imported->second.rfind('.'), imported->second.size());
      if (dot < imported->second.size())
        sends = Sends(std::string_view(imported->second).substr(dot + 1), imported->second.substr(0, dot));
    } else {
      sends = all_names_ && Sends(name, kTorch);
    }
    if (!sends) continue;
    std::size_t first = i;
    while (first >= 2 && statement[first - 1].text == "." && IsName(statement[first - 2].text)) first -= 2;
    std::string what;
    for (std::size_t k = first; k <= i; ++k) what += statement[k].text;
    carrier_ = SourceSign{std::move(what), path + " line " + std::to_string(statement[i].line)};
  }
}

void SharingSigns::Add(const std::vector<PythonStatement>& statements, const std::vector<PythonImport>& imports,
                       const std::string& path, const std::function<bool(const PythonImport&)>& own) {
  names_.clear();
  contexts_.clear();
  all_names_ = false;
  Bind(imports, own);
  for (const PythonStatement& statement : statements) BindContexts(statement);
  for (const PythonStatement& statement : statements) Search(statement, path);
}

}  // namespace stalloc::interpose
