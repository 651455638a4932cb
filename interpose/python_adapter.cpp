// The adapter for Python: how it gets into the interpreter, and what it asks of the library (python/adapter.py).
//
// CPython looks up each extension module's PyInit function by dlsym, in the importing thread and with the global lock
// held: the first of these look-ups runs the adapter's source, which this library carries. In the main interpreter
// alone; a forked child has it already.
#include "python_adapter.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "loader.h"
#include "memory_checker.h"
#include "process_life.h"
#include "runtime/base/log.h"
#include "runtime/base/settings.h"
#include "runtime/call_sites/python_stack.h"
#include "runtime/service/history.h"
#include "runtime/service/program_needs.h"
#include "runtime/service/program_pools.h"
#include "runtime/service/service.h"

// The sources, as the linker takes them in.
#define STALLOC_PYTHON_SOURCE(part)                \
  extern "C" const char stalloc_python_##part[];   \
  asm(".section .rodata\n"                         \
      "stalloc_python_" #part                      \
      ":\n"                                        \
      ".incbin \"" STALLOC_PYTHON_FOLDER "/" #part \
      ".py\"\n"                                    \
      ".byte 0\n"                                  \
      ".previous\n");
STALLOC_PYTHON_SOURCE(adapter)
STALLOC_PYTHON_SOURCE(torch_memory)
STALLOC_PYTHON_SOURCE(torch_pools)
STALLOC_PYTHON_SOURCE(torch_sharing)

namespace stalloc::interpose {
namespace {

template <typename Function>
Function* Find(const char* name) noexcept {
  return reinterpret_cast<Function*>(RealDlsym(RTLD_DEFAULT, name));
}

// CPython's functions; objects are opaque.
void RunAdapter() noexcept {
  auto* const initialised = Find<int()>("Py_IsInitialized");
  auto* const held = Find<int()>("PyGILState_Check");
  auto* const current = Find<void*()>("PyInterpreterState_Get");
  auto* const main = Find<void*()>("PyInterpreterState_Main");
  auto* const compile = Find<void*(const char*, const char*, int)>("Py_CompileString");
  auto* const execute = Find<void*(const char*, void*)>("PyImport_ExecCodeModule");
  auto* const release = Find<void(void*)>("Py_DecRef");
  auto* const fetch = Find<void(void**, void**, void**)>("PyErr_Fetch");
  auto* const restore = Find<void(void*, void*, void*)>("PyErr_Restore");
  auto* const clear = Find<void()>("PyErr_Clear");
  if (initialised == nullptr || held == nullptr || current == nullptr || main == nullptr || compile == nullptr ||
      execute == nullptr || release == nullptr || fetch == nullptr || restore == nullptr || clear == nullptr)
    return;
  if (initialised() == 0 || held() == 0 || current() != main()) return;
  static constinit std::atomic<bool> ran{false};
  if (ran.exchange(true)) return;
  void *type = nullptr, *value = nullptr, *traceback = nullptr;
  fetch(&type, &value, &traceback);
  constexpr int kFileInput = 257;
  if (void* code = compile(stalloc_python_adapter, "<stalloc adapter>", kFileInput)) {
    if (void* module = execute("_stalloc", code)) release(module);
    release(code);
  }
  clear();
  restore(type, value, traceback);
}

}  // namespace

void* LookUpPyInit(void* handle, const char* name) noexcept {
  void* found = RealDlsym(handle, name);
  if (found != nullptr && Enabled() && !MemoryCheckerAttached()) RunAdapter();
  return found;
}

}  // namespace stalloc::interpose

using namespace stalloc;

#define STALLOC_FOR_ADAPTER extern "C" __attribute__((visibility("default")))

STALLOC_FOR_ADAPTER const char* stalloc_python_source(const char* part) noexcept {
  constexpr struct {
    const char* name;
    const char* text;
  } kParts[] = {{"torch_memory", stalloc_python_torch_memory},
                {"torch_pools", stalloc_python_torch_pools},
                {"torch_sharing", stalloc_python_torch_sharing}};
  for (const auto& one : kParts)
    if (std::strcmp(one.name, part) == 0) return one.text;
  return nullptr;
}

STALLOC_FOR_ADAPTER int stalloc_frameworks() noexcept {
  std::vector<std::string> warnings;
  return runtime::LoadSettings(environ, &warnings).frameworks ? 1 : 0;
}

STALLOC_FOR_ADAPTER void stalloc_say(int warn, const char* text) noexcept {
  warn != 0 ? runtime::LogWarn(text) : runtime::LogInfo(text);
}

STALLOC_FOR_ADAPTER int stalloc_owns(std::uint64_t address) noexcept { return runtime::Owns(address) ? 1 : 0; }

STALLOC_FOR_ADAPTER void stalloc_note_graph_pools() noexcept { runtime::NoteNeed(runtime::Need::kGraphPools); }

// Small, large and all blocks: number, used and requested bytes: now, highest and altogether; reserved bytes: now,
// highest and given back; what could not be served; mappings made and ended.
STALLOC_FOR_ADAPTER void stalloc_figures(int device, std::uint64_t* figures, int count) noexcept {
  const runtime::MemoryCounters c = runtime::CountersOf(device);
  const auto sum = [](const runtime::Tally& a, const runtime::Tally& b, std::uint64_t high) {
    return runtime::Tally{a.now + b.now, high, a.total + b.total};
  };
  const runtime::BlockTally &small = c.small_blocks, &large = c.large_blocks;
  const runtime::BlockTally all = {c.blocks, sum(small.used_bytes, large.used_bytes, c.used_high_bytes),
                                   sum(small.requested_bytes, large.requested_bytes, c.live_high_bytes)};
  int at = 0;
  const auto put = [&](std::uint64_t figure) {
    if (at < count) figures[at++] = figure;
  };
  for (const runtime::BlockTally* blocks : {&small, &large, &all})
    for (const runtime::Tally* tally : {&blocks->blocks, &blocks->used_bytes, &blocks->requested_bytes})
      for (const std::uint64_t figure : {tally->now, tally->high, tally->total}) put(figure);
  for (const std::uint64_t figure :
       {c.reserved_bytes, c.reserved_high_bytes, c.returned_page_bytes, c.out_of_memory, c.map_calls, c.unmap_calls})
    put(figure);
}

STALLOC_FOR_ADAPTER int stalloc_learn_frames() noexcept { return runtime::LearnPythonFrames() ? 1 : 0; }

STALLOC_FOR_ADAPTER void stalloc_history_start(int events, int stacks, std::size_t most_events) noexcept {
  runtime::History::Start({events != 0, static_cast<runtime::HistoryStacks>(stacks), most_events});
}
STALLOC_FOR_ADAPTER void stalloc_history_stop() noexcept { runtime::History::Stop(); }
STALLOC_FOR_ADAPTER void stalloc_history_clear() noexcept { runtime::History::Clear(); }

// The caller frees it by stalloc_free_text; null for want of memory.
STALLOC_FOR_ADAPTER char* stalloc_history_text(int device, int events) noexcept {
  try {
    return ::strdup(runtime::HistoryText(device, events != 0).c_str());
  } catch (...) {
    return nullptr;
  }
}
STALLOC_FOR_ADAPTER void stalloc_free_text(char* text) noexcept { std::free(text); }

STALLOC_FOR_ADAPTER runtime::ProgramPool* stalloc_pool_make(runtime::PoolAllocateFunction* allocate,
                                                            runtime::PoolFreeFunction* free) noexcept {
  return runtime::MakePool(allocate, free);
}
STALLOC_FOR_ADAPTER void stalloc_pool_enter(runtime::ProgramPool* pool) noexcept { runtime::EnterPool(pool); }
STALLOC_FOR_ADAPTER void stalloc_pool_leave() noexcept { runtime::LeavePool(); }
STALLOC_FOR_ADAPTER void stalloc_pool_end(runtime::ProgramPool* pool) noexcept { runtime::EndPool(pool); }
