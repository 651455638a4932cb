// dlsym: the door for programs that open libcuda or libcudart themselves (every statically linked cudart does).
//
// Exported, so every dlsym of the process comes here. What is not a name of the table leaves by a jump, not a call:
// glibc finds out who called from the return address, and RTLD_NEXT means "after the caller". Any thread, at any time
// in the life of the process, before constructors and after destructors too; no locks, no allocation.
#include <dlfcn.h>

#include <cstring>

#include "entry_points.h"
#include "loader.h"
#include "process_life.h"
#include "python_adapter.h"
#include "real_symbols.h"

namespace stalloc::interpose {
namespace {

// For the names of the table: the real answer first. A wrapper replaces it if it is the real pointer that the wrapper
// stands for, so a function of that name in some other library stays what it is.
void* LookUpEntryPoint(void* handle, const char* name) noexcept {
  const EntryPoint* point = FindEntryPoint(name);
  const Entry entry = static_cast<Entry>(point - kEntryPoints);
  void* answer = RealDlsym(handle, name);
  if (answer == nullptr) return nullptr;
  if (answer == point->wrapper) {
    // A search of the global scope (RTLD_DEFAULT, dlopen(NULL)) finds what is exported here. Without the shim it finds
    // the real function if there is one; if there is none it fails, and sets dlerror, and so it must here.
    return Enabled() && FindRealPointer(entry) != nullptr ? answer : RealDlsym(RTLD_NEXT, name);
  }
  if (!Enabled()) return answer;
  FindRealPointer(entry);
  return WrapperFor(answer);
}

// Before the first use of anything from libc: dlsym is called while other libraries are only half initialised.
bool MayBeEntryPoint(const char* name) noexcept { return name != nullptr && name[0] == 'c' && name[1] == 'u'; }

}  // namespace

// Where the trampoline jumps to: decided before the call, because after a tail call there is no after.
//
// RTLD_NEXT is the loader's business even for a name of the table. To a caller ahead of this library in the search
// order it gives the wrapper, which is exported; a caller behind it is another interposer that wants what lies beneath,
// and to give it the wrapper would make the two call each other for ever.
extern "C" __attribute__((used, visibility("hidden"))) void* stalloc_dlsym_target(void* handle,
                                                                                  const char* name) noexcept {
  if (MayBeEntryPoint(name) && handle != RTLD_NEXT && FindEntryPoint(name) != nullptr) {
    return reinterpret_cast<void*>(&LookUpEntryPoint);
  }
  // "PyInit_": an extension module of Python is being imported.
  if (name != nullptr && name[0] == 'P' && name[1] == 'y' && name[2] == 'I' && std::strncmp(name, "PyInit_", 7) == 0) {
    return reinterpret_cast<void*>(&LookUpPyInit);
  }
  return RealDlsymPointer();
}

}  // namespace stalloc::interpose

// dlsym(handle, name): asks where to go, restores the arguments, and goes there with the caller's frame as it was.
#if defined(__x86_64__)
asm(R"(
    .text
    .p2align 4
    .globl dlsym
    .type dlsym, @function
dlsym:
    .cfi_startproc
    endbr64
    pushq %rdi
    .cfi_adjust_cfa_offset 8
    pushq %rsi
    .cfi_adjust_cfa_offset 8
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    call stalloc_dlsym_target
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq %rsi
    .cfi_adjust_cfa_offset -8
    popq %rdi
    .cfi_adjust_cfa_offset -8
    jmp *%rax
    .cfi_endproc
    .size dlsym, . - dlsym
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .p2align 4
    .globl dlsym
    .type dlsym, %function
dlsym:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset x29, -32
    .cfi_offset x30, -24
    stp x0, x1, [sp, #16]
    mov x29, sp
    bl stalloc_dlsym_target
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #32
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    br x16
    .cfi_endproc
    .size dlsym, . - dlsym
)");
#else
#error "dlsym needs a tail jump for this architecture"
#endif
