#include "tools/models/allocator_model.h"

namespace stalloc::tools {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<AllocatorModel> (*make)();
};

constexpr Entry kModels[] = {
    {"torch", MakeTorchCaching},
    {"torch-expandable", MakeTorchExpandable},
    {"cuda-async", MakeCudaAsyncPool},
    {"best-fit", MakeBestFitArena},
};

}  // namespace

std::vector<std::string> AllocatorModelNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kModels) names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<AllocatorModel> MakeAllocatorModel(const std::string& name) {
  for (const Entry& entry : kModels) {
    if (name == entry.name) return entry.make();
  }
  return nullptr;
}

}  // namespace stalloc::tools
