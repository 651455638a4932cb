#include "code.h"

#include <algorithm>

#include "machine.h"

namespace stalloc::simcuda {
namespace {

constexpr int kRegistersPerMultiprocessor = 65536;
constexpr int kMaxThreadsPerBlock = 1024;
constexpr int kWarpThreads = 32;
constexpr std::size_t kDefaultSharedBytes = 48 << 10;

}  // namespace

std::shared_ptr<Function> FindFunction(Machine& machine, const std::shared_ptr<CodeModule>& module, const char* name) {
  std::shared_ptr<Function>& function = module->functions[name];
  if (function == nullptr) {
    function = std::make_shared<Function>();
    function->name = name;
    function->module = module;
    function->handle = machine.functions.Add(function);
  }
  return function;
}

CUresult FindVariable(Machine& machine, CodeModule& module, Context& context, const char* name, CUdeviceptr* address,
                      std::size_t* size_bytes) {
  const auto known = module.variable_bytes.find(name);
  if (known == module.variable_bytes.end()) return CUDA_ERROR_NOT_FOUND;
  CUdeviceptr& place = module.variables[{&context, name}];
  if (place == 0) {
    const std::uint64_t bytes = std::max<std::uint64_t>(known->second, 1);
    if (const CUresult error = machine.blocks.Allocate(context.Owner(), bytes, &place)) return error;
  }
  if (address != nullptr) *address = place;
  if (size_bytes != nullptr) *size_bytes = known->second;
  return CUDA_SUCCESS;
}

void UnloadModule(Machine& machine, CodeModule& module) {
  for (const auto& [name, function] : module.functions) machine.functions.Remove(function->handle);
  for (const auto& [key, address] : module.variables) {
    if (address != 0) machine.blocks.Release(address);
  }
  module.functions.clear();
  module.variables.clear();
}

void ForgetCode(Machine& machine, const Context& context) {
  std::vector<CUmodule> ended;
  machine.code_modules.ForEach([&](CodeModule& module) {
    std::erase_if(module.variables, [&](const auto& entry) { return entry.first.first == &context; });
    if (module.context == &context) ended.push_back(module.handle);
  });
  for (const CUmodule handle : ended) UnloadModule(machine, *machine.code_modules.Remove(handle));
}

CUresult GetFunctionAttribute(const Card& card, const Function& function, CUfunction_attribute attribute, int* value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = kMaxThreadsPerBlock;
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = function.static_shared_bytes;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = function.registers;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = card.major * 10 + card.minor;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = function.max_dynamic_shared_bytes;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: {
      const auto set = function.attributes.find(attribute);
      *value = set != function.attributes.end() ? set->second : -1;
      break;
    }
    default: {
      if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
      const auto set = function.attributes.find(attribute);
      *value = set != function.attributes.end() ? set->second : 0;
      break;
    }
  }
  return CUDA_SUCCESS;
}

CUresult SetFunctionAttribute(const Card& card, Function& function, CUfunction_attribute attribute, int value) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value + function.static_shared_bytes > card.shared_bytes_per_block_optin)
        return CUDA_ERROR_INVALID_VALUE;
      function.max_dynamic_shared_bytes = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      function.attributes[attribute] = value;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

int BlocksPerMultiprocessor(const Card& card, const Function& function, int threads_per_block,
                            std::size_t dynamic_shared_bytes) {
  const int warps = (threads_per_block + kWarpThreads - 1) / kWarpThreads;
  const int threads = warps * kWarpThreads;
  const auto limit =
      std::max<std::size_t>(static_cast<std::size_t>(function.max_dynamic_shared_bytes), kDefaultSharedBytes);
  if (threads == 0 || threads > kMaxThreadsPerBlock || dynamic_shared_bytes > limit) return 0;
  int blocks = std::min(card.blocks_per_multiprocessor, card.threads_per_multiprocessor / threads);
  blocks = std::min(blocks, kRegistersPerMultiprocessor / (function.registers * threads));
  const std::size_t reserved = card.major >= 8 ? 1024 : 0;
  const std::size_t shared = reserved + dynamic_shared_bytes + static_cast<std::size_t>(function.static_shared_bytes);
  if (shared > 0) {
    blocks =
        std::min(blocks, static_cast<int>(static_cast<std::size_t>(card.shared_bytes_per_multiprocessor) / shared));
  }
  return blocks;
}

}  // namespace stalloc::simcuda
