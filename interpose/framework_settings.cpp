#include "framework_settings.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "loader.h"
#include "memory_checker.h"
#include "process_life.h"
#include "runtime/base/log.h"
#include "runtime/base/settings.h"
#include "runtime/service/program_needs.h"

namespace stalloc::interpose {
namespace {

using Getenv = char*(const char*);

// The order in which PyTorch's newest versions prefer them; older ones know the second alone.
constexpr const char* kPyTorchNames[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
// With it, PyTorch's NCCL asks the allocator to be told of every segment, which the cudaMallocAsync backend refuses.
constexpr const char* kRegisteredBuffers = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK";
constexpr const char* kTensorFlow = "TF_GPU_ALLOCATOR";

constinit std::atomic<bool> backend_was_chosen{false};

constinit std::atomic<const char*> remark{nullptr};

char* RealGetenv(const char* name) noexcept {
  static constinit std::atomic<Getenv*> real{nullptr};
  Getenv* found = real.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = reinterpret_cast<Getenv*>(RealDlsym(RTLD_NEXT, "getenv"));
    real.store(found, std::memory_order_release);
  }
  return found(name);
}

// The caller is asked for by name: several libraries of a framework ask, in other versions others.
bool CalledFrom(const void* caller, std::initializer_list<const char*> libraries) noexcept {
  Dl_info info{};
  if (::dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  const char* slash = std::strrchr(info.dli_fname, '/');
  const char* file = slash != nullptr ? slash + 1 : info.dli_fname;
  for (const char* library : libraries)
    if (std::strstr(file, library) != nullptr) return true;
  return false;
}

// Answers stay valid for as long as the process lives, as libc's do.
char* Kept(const std::string& text) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& kept = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return const_cast<char*>(kept.insert(text).first->c_str());
}

std::string_view Trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\n");
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\n") + 1 - begin);
}

// visit(option) for each `key:value`; a value in brackets may hold commas.
template <typename Visit>
void ForEachOption(std::string_view settings, Visit visit) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= settings.size(); ++at) {
    const char c = at < settings.size() ? settings[at] : ',';
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c != ',' || (depth > 0 && at < settings.size())) continue;
    if (const std::string_view option = Trimmed(settings.substr(begin, at - begin)); !option.empty()) visit(option);
    begin = at + 1;
  }
}

bool Active() noexcept { return Enabled() && !MemoryCheckerAttached(); }

bool NamesBackend(std::string_view settings) {
  bool names = false;
  ForEachOption(settings, [&](std::string_view option) {
    names = names || Trimmed(option.substr(0, option.find(':'))) == "backend";
  });
  return names;
}

// Decided once, when PyTorch is loaded.
bool PyTorchIsToUseTheBackend(const runtime::Settings& settings) {
  static const bool use = [&] {
    if (!settings.frameworks || settings.ipc == runtime::Ipc::kOn) return false;
    if (!runtime::KnownToNeed(settings, runtime::Need::kGraphPools)) return true;
    remark =
        "PyTorch keeps its own allocator, whose blocks only are served and not single tensors: an earlier run of this "
        "program used CUDA graph pools, which need it (PYTORCH_ALLOC_CONF=backend:cudaMallocAsync overrides this)";
    return false;
  }();
  return use;
}

runtime::Settings SettingsNow() {
  std::vector<std::string> warnings;  // said when the allocator starts
  const runtime::Settings settings = runtime::LoadSettings(environ, &warnings);
  runtime::SetLogLevel(settings.log);
  return settings;
}

char* AnswerPyTorch(char* own, const char* name) {
  const char* other = RealGetenv(kPyTorchNames[std::strcmp(name, kPyTorchNames[0]) == 0 ? 1 : 0]);
  if ((own != nullptr && NamesBackend(own)) || (other != nullptr && NamesBackend(other))) return own;
  if (!PyTorchIsToUseTheBackend(SettingsNow())) return own;
  std::string dropped;
  const char* users = own != nullptr ? own : other;
  const std::string answer = OnAsyncBackend(users != nullptr ? users : "", &dropped);
  if (!backend_was_chosen.exchange(true)) {
    runtime::LogInfo("PyTorch uses its cudaMallocAsync backend, so that single tensors are served" +
                     (dropped.empty() ? "" : "; without a meaning there: " + dropped));
  }
  return Kept(answer);
}

char* Answer(const char* name, char* own, const void* caller) {
  if (std::strcmp(name, kPyTorchNames[0]) == 0 || std::strcmp(name, kPyTorchNames[1]) == 0) {
    return Active() && CalledFrom(caller, {"libc10", "libtorch"}) ? AnswerPyTorch(own, name) : own;
  }
  if (std::strcmp(name, kRegisteredBuffers) == 0) {
    if (own == nullptr || !PyTorchBackendWasChosen() || !CalledFrom(caller, {"libtorch"})) return own;
    runtime::LogWarn(std::string(kRegisteredBuffers) +
                     " has no effect: NCCL registers no buffers of PyTorch's cudaMallocAsync backend "
                     "(PYTORCH_ALLOC_CONF=backend:native overrides this)");
    return nullptr;
  }
  if (std::strcmp(name, kTensorFlow) == 0 && own == nullptr && Active() && CalledFrom(caller, {"tensorflow"}) &&
      SettingsNow().frameworks)
    return Kept("cuda_malloc_async");
  return own;
}

}  // namespace

std::string OnAsyncBackend(std::string_view settings, std::string* dropped) {
  std::string kept = "backend:cudaMallocAsync";
  ForEachOption(settings, [&](std::string_view option) {
    std::string& to = option.starts_with("pinned_") ? kept : *dropped;
    to.append(to.empty() ? "" : ",").append(option);
  });
  return kept;
}

bool PyTorchBackendWasChosen() noexcept { return backend_was_chosen.load(std::memory_order_relaxed); }

const char* PyTorchRemark() noexcept { return remark; }

}  // namespace stalloc::interpose

// Programs ask thousands of times: two comparisons for what concerns nobody here.
extern "C" __attribute__((visibility("default"))) char* getenv(const char* name) noexcept {
  char* own = stalloc::interpose::RealGetenv(name);
  if ((name[0] != 'P' || name[1] != 'Y') && (name[0] != 'T' || (name[1] != 'F' && name[1] != 'O'))) return own;
  try {
    return stalloc::interpose::Answer(name, own, __builtin_return_address(0));
  } catch (...) {  // without memory the framework keeps its own allocator
    return own;
  }
}
