// context_order KIND CASE: runs one case over two contexts of some kinds. context_order.h says what for.
#include "context_order.h"

#include <cstdio>
#include <cstring>

using namespace context_order;

namespace {

enum class Kind { kPrimaryAndMade, kMadeAndPrimary, kBothMade, kGreen };

CUcontext Primary() {
  CUcontext context = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  return context;
}

CUcontext Green() {
  CUgreenCtx green = nullptr;
  CUcontext context = nullptr;
  CHECK(cuGreenCtxCreate(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
  CHECK(cuCtxFromGreenCtx(&context, green) == CUDA_SUCCESS);
  return context;
}

Contexts Make(Kind kind) {
  switch (kind) {
    case Kind::kPrimaryAndMade:
      return {Primary(), Made()};
    case Kind::kMadeAndPrimary:
      return {Made(), Primary()};
    case Kind::kBothMade:
      return {Made(), Made()};
    case Kind::kGreen:
      return {Green(), Green()};
  }
  return {};
}

struct Case {
  const char* name;
  void (*run)(const Contexts& contexts);
};
constexpr Case kCases[] = {{"default", DefaultStreams},
                           {"legacy", LegacyStreams},
                           {"per_thread", PerThreadStreams},
                           {"freed_elsewhere", FreedElsewhere},
                           {"made", MadeStreams},
                           {"no_stream", FreedWithoutStream},
                           {"beside_waiting", FreedBesideWaiting},
                           {"used_elsewhere", UsedElsewhere},
                           {"trim", Trimmed},
                           {"short", ShortOfMemory},
                           {"capture", FreedBesideCapture},
                           {"threads", ThreadsThatEnd},
                           {"other_thread", TrimmedByAnotherThread},
                           {"end", ContextsThatEnd},
                           {"end_at_work", ContextThatEndsAtWork},
                           {"random", Random}};

struct Named {
  const char* name;
  Kind kind;
};
constexpr Named kKinds[] = {{"primary_made", Kind::kPrimaryAndMade},
                            {"made_primary", Kind::kMadeAndPrimary},
                            {"both_made", Kind::kBothMade},
                            {"green", Kind::kGreen}};

}  // namespace

int main(int count, char** arguments) {
  CHECK(count == 3 && cuInit(0) == CUDA_SUCCESS);
  for (const Named& kind : kKinds) {
    if (std::strcmp(kind.name, arguments[1]) != 0) continue;
    for (const Case& one : kCases) {
      if (std::strcmp(one.name, arguments[2]) != 0) continue;
      one.run(Make(kind.kind));
      char text[320];
      simcudaFirstCorruption(text, sizeof text);
      if (simcudaCorruptions() != 0) std::fprintf(stderr, "%s\n", text);
      CHECK(simcudaCorruptions() == 0);
      return 0;
    }
  }
  CHECK(!"no such case");
}
