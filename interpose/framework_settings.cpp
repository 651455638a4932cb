#include "framework_settings.h"

#include <errno.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <vector>

#include "python_source.h"
#include "runtime/program_fingerprint.h"
#include "runtime/program_needs.h"

namespace stalloc::interpose {
namespace {

constexpr const char* kAsyncBackend = "backend:cudaMallocAsync";
// The second is the older name, which some versions of PyTorch read first.
constexpr const char* kPyTorchNames[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
constexpr const char* kDecision = "_STALLOC_PYTORCH";
struct Setting {
  const char* name;
  const char* value;
};
constexpr Setting kOfOthers[] = {{"XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async"},
                                 {"XLA_PYTHON_CLIENT_PREALLOCATE", "false"},
                                 {"TF_GPU_ALLOCATOR", "cuda_malloc_async"}};
// The names of those of them that stalloc has set, in this process or in an ancestor, each with a colon behind it.
constexpr const char* kSetForOthers = "_STALLOC_SET";
// With it, PyTorch's NCCL asks the allocator to be told of every segment, which the cudaMallocAsync backend refuses.
constexpr const char* kRegisteredBuffers = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK";

bool backend_was_chosen = false;

std::string& Remark() noexcept {
  static std::string& remark = *new std::string;
  return remark;
}

const char* Get(const char* name) noexcept { return std::getenv(name); }  // NOLINT(concurrency-mt-unsafe): before main

bool Is(const char* name, const char* value) noexcept {
  const char* now = Get(name);
  return now != nullptr && std::strcmp(now, value) == 0;
}

std::string NamesSetForOthers() {
  const char* names = Get(kSetForOthers);
  return names == nullptr ? std::string() : names;
}

void SetForOthers() {
  std::string names = NamesSetForOthers();
  for (const Setting& setting : kOfOthers) {
    if (Get(setting.name) != nullptr) continue;
    ::setenv(setting.name, setting.value, 1);
    names.append(setting.name).append(":");
  }
  if (!names.empty()) ::setenv(kSetForOthers, names.c_str(), 1);
}

// Why PyTorch must keep its own allocator here; nothing if it need not.
std::optional<std::string> Obstacle(const runtime::Settings& settings) {
  using runtime::Need;
  // The user knows. A need of handles that was only seen is not PyTorch's: on the cudaMallocAsync backend it refuses
  // before it asks CUDA, so it was somebody else beside it (NCCL, say), whose cudaMalloc is left to the driver.
  if (settings.ipc == runtime::Ipc::kOn) return std::string();
  const std::vector<std::string> arguments = runtime::ArgumentsOfThisProcess();
  std::string why;
  const auto feature = FindAllocatorFeature(arguments);
  if (feature && feature->shares_memory) {
    if (settings.ipc == runtime::Ipc::kOff) return std::nullopt;
    ::setenv("STALLOC_IPC", "on", 1);  // for the start of this process, and for the children that it sends memory to
    return "PyTorch keeps its own allocator, and cudaMalloc is left to the driver, so that other processes can be "
           "given "
           "its memory: " +
           feature->where + " has " + feature->what + " (STALLOC_IPC=off overrides this)";
  }
  if (feature) {
    why = feature->where + " has " + feature->what;
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

void SetForPyTorch(const runtime::Settings& settings) {
  if (Is(kDecision, "left") || UserHasSet()) return;
  const bool python = runtime::IsPython(program_invocation_name);
  const std::optional<std::string> obstacle = python ? Obstacle(settings) : std::nullopt;
  if (obstacle) {
    for (const char* name : kPyTorchNames) ::unsetenv(name);
    ::setenv(kDecision, "left", 1);
    Remark() = *obstacle;
    return;
  }
  for (const char* name : kPyTorchNames) ::setenv(name, kAsyncBackend, 1);
  ::setenv(kDecision, "set", 1);
  backend_was_chosen = python;
}

}  // namespace

void SetFrameworkSettings(const runtime::Settings& settings) {
  SetForPyTorch(settings);
  SetForOthers();
}

void TakeBackFrameworkSettings() {
  if (Is(kDecision, "set"))
    for (const char* name : kPyTorchNames)
      if (Is(name, kAsyncBackend)) ::unsetenv(name);
  ::unsetenv(kDecision);
  const std::string names = NamesSetForOthers();
  for (const Setting& setting : kOfOthers)
    if (names.find(std::string(setting.name) + ":") != std::string::npos && Is(setting.name, setting.value))
      ::unsetenv(setting.name);
  ::unsetenv(kSetForOthers);
}

bool PyTorchBackendWasChosen() noexcept { return backend_was_chosen; }

const std::string& PyTorchRemark() noexcept { return Remark(); }

}  // namespace stalloc::interpose
