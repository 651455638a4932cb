#include "framework_settings.h"

#include <errno.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>

#include "python_source.h"
#include "runtime/call_sites/program_fingerprint.h"
#include "runtime/service/program_needs.h"

namespace stalloc::interpose {
namespace {

constexpr const char* kAsyncBackend = "backend:cudaMallocAsync";
// The second is the older name, which some versions of PyTorch read first.
constexpr const char* kPyTorchNames[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
constexpr const char* kDecision = "_STALLOC_PYTORCH";
constexpr const char* kRemark = "_STALLOC_REMARK";
constexpr const char* kIpc = "STALLOC_IPC";
struct Setting {
  const char* name;
  const char* value;
};
constexpr Setting kOfOthers[] = {{"XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async"},
                                 {"XLA_PYTHON_CLIENT_PREALLOCATE", "false"},
                                 {"TF_GPU_ALLOCATOR", "cuda_malloc_async"}};
// The names of those of them, and of kIpc, that stalloc has set, in this process or in an ancestor, each with a colon
// behind it.
constexpr const char* kSetHere = "_STALLOC_SET";
// With it, PyTorch's NCCL asks the allocator to be told of every segment, which the cudaMallocAsync backend refuses.
constexpr const char* kRegisteredBuffers = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK";

bool backend_was_chosen = false;

std::string& RemarkOfThisProcess() {
  static std::string& remark = *new std::string;
  return remark;
}

const char* Get(const char* name) noexcept { return std::getenv(name); }  // NOLINT(concurrency-mt-unsafe): before main

bool Is(const char* name, const char* value) noexcept {
  const char* now = Get(name);
  return now != nullptr && std::strcmp(now, value) == 0;
}

std::string NamesSetHere() {
  const char* names = Get(kSetHere);
  return names == nullptr ? std::string() : names;
}

bool WasSetHere(const char* name) {
  return (':' + NamesSetHere()).find(':' + std::string(name) + ':') != std::string::npos;
}

void SetHere(const char* name, const char* value) {
  ::setenv(name, value, 1);
  if (!WasSetHere(name)) ::setenv(kSetHere, (NamesSetHere() + name + ':').c_str(), 1);
}

void SetForOthers() {
  for (const Setting& setting : kOfOthers)
    if (Get(setting.name) == nullptr) SetHere(setting.name, setting.value);
}

// Said by this process, and by those of its children that use CUDA: it may use none itself.
void Remark(const std::string& text) {
  RemarkOfThisProcess() = text;
  ::setenv(kRemark, text.c_str(), 1);
}

constexpr const char* kLeftToDriver =
    "cudaMalloc is left to the driver, so that other processes can be given its memory: ";

std::string SharingIs(const SourceSign& sign) {
  return sign.where + " has " + sign.what + " (STALLOC_IPC=off overrides this)";
}

// Why PyTorch must keep its own allocator here; nothing if it need not.
std::optional<std::string> Obstacle(const runtime::Settings& settings, const SourceSigns& signs) {
  using runtime::Need;
  if (signs.sharing && settings.ipc == runtime::Ipc::kAuto)
    return std::string("PyTorch keeps its own allocator, and ") + kLeftToDriver + SharingIs(*signs.sharing);
  // The user knows. A need of handles that was only seen is not PyTorch's: on the cudaMallocAsync backend it refuses
  // before it asks CUDA, so it was somebody else beside it (NCCL, say), whose cudaMalloc is left to the driver.
  if (settings.ipc == runtime::Ipc::kOn) return std::string();
  std::string why;
  if (signs.own_allocator) {
    why = signs.own_allocator->where + " has " + signs.own_allocator->what;
  } else if (Get(kRegisteredBuffers) != nullptr && !Is(kRegisteredBuffers, "") && !Is(kRegisteredBuffers, "0")) {
    why = std::string(kRegisteredBuffers) + " is set";
  } else if (runtime::KnownToNeed(settings, Need::kGraphPools)) {
    why = "an earlier run of this program used them";
  } else {
    return std::nullopt;
  }
  return "PyTorch keeps its own allocator, whose blocks only are served and not single tensors: CUDA graph pools, "
         "memory history and NCCL's registered buffers need it, and " +
         why + " (PYTORCH_ALLOC_CONF=backend:cudaMallocAsync overrides this)";
}

bool AnyForPyTorch() noexcept {
  return std::any_of(std::begin(kPyTorchNames), std::end(kPyTorchNames), [](const char* name) { return Get(name); });
}

// What was set for an ancestor is taken back where the user has set one of the two since, so that it counts.
bool UserHasSet() noexcept {
  const bool inherited = Is(kDecision, "set");
  bool users = false;
  for (const char* name : kPyTorchNames)
    users = users || (Get(name) != nullptr && !(inherited && Is(name, kAsyncBackend)));
  if (!users || !inherited) return users;
  for (const char* name : kPyTorchNames)
    if (Is(name, kAsyncBackend)) ::unsetenv(name);
  ::unsetenv(kDecision);
  return true;
}

// A decision for sharing is void once the user has set STALLOC_IPC otherwise.
void ForgetSharingIfOverridden() {
  if (!WasSetHere(kIpc) || Is(kIpc, "on")) return;
  std::string names = NamesSetHere();
  names.erase(names.find(std::string(kIpc) + ':'), std::strlen(kIpc) + 1);
  ::setenv(kSetHere, names.c_str(), 1);
  ::unsetenv(kDecision);
  ::unsetenv(kRemark);
}

void SetForPyTorch(const runtime::Settings& settings, const SourceSigns& signs, bool python) {
  if (Is(kDecision, "left") || UserHasSet()) return;
  const std::optional<std::string> obstacle = python ? Obstacle(settings, signs) : std::nullopt;
  if (obstacle) {
    for (const char* name : kPyTorchNames) ::unsetenv(name);
    ::setenv(kDecision, "left", 1);
    if (!obstacle->empty()) Remark(*obstacle);
    return;
  }
  for (const char* name : kPyTorchNames) ::setenv(name, kAsyncBackend, 1);
  ::setenv(kDecision, "set", 1);
  backend_was_chosen = python;
}

}  // namespace

void SetFrameworkSettings(const runtime::Settings& settings) {
  ForgetSharingIfOverridden();
  const bool python = runtime::IsPython(program_invocation_name);
  const bool decided = Is(kDecision, "left") && settings.ipc == runtime::Ipc::kOn;
  const SourceSigns signs = python && !decided ? ReadSource(runtime::ArgumentsOfThisProcess()) : SourceSigns();
  const bool shares = signs.sharing && settings.ipc == runtime::Ipc::kAuto;
  if (shares) SetHere(kIpc, "on");  // for the start of this process, and for the children that it sends memory to
  if (settings.frameworks) {
    SetForPyTorch(settings, signs, python);
    SetForOthers();
  } else {
    TakeBackFrameworkSettings();
  }
  if (!RemarkOfThisProcess().empty()) return;
  if (shares) {
    Remark(kLeftToDriver + SharingIs(*signs.sharing));
  } else if (Get(kRemark) != nullptr && (WasSetHere(kIpc) || (Is(kDecision, "left") && !AnyForPyTorch()))) {
    RemarkOfThisProcess() = Get(kRemark);
  }
}

void TakeBackFrameworkSettings() {
  if (Is(kDecision, "set"))
    for (const char* name : kPyTorchNames)
      if (Is(name, kAsyncBackend)) ::unsetenv(name);
  ::unsetenv(kDecision);
  for (const Setting& setting : kOfOthers)
    if (WasSetHere(setting.name) && Is(setting.name, setting.value)) ::unsetenv(setting.name);
  if (WasSetHere(kIpc)) {
    ::setenv(kSetHere, (std::string(kIpc) + ':').c_str(), 1);
    return;
  }
  ::unsetenv(kSetHere);
  ::unsetenv(kRemark);
}

void TakeBackAllSettings() {
  TakeBackFrameworkSettings();
  if (WasSetHere(kIpc) && Is(kIpc, "on")) ::unsetenv(kIpc);
  ::unsetenv(kSetHere);
  ::unsetenv(kRemark);
}

bool PyTorchBackendWasChosen() noexcept { return backend_was_chosen; }

const std::string& PyTorchRemark() noexcept { return RemarkOfThisProcess(); }

}  // namespace stalloc::interpose
