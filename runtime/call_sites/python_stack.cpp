#include "runtime/call_sites/python_stack.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

namespace stalloc::runtime {
namespace {

using Object = void;

// CPython's functions, of the interpreter that the process has.
struct Python {
  const unsigned long* version;
  void* (*this_thread)();          // PyGILState_GetThisThreadState
  Object* (*current_frame)();      // PyEval_GetFrame: borrowed
  Object* (*code_of)(Object*);     // PyFrame_GetCode: new
  Object* (*caller_of)(Object*);   // PyFrame_GetBack: new, or null
  int (*line_of)(Object*);         // PyFrame_GetLineNumber
  int (*line_at)(Object*, int);    // PyCode_Addr2Line
  int (*interpreter_line)(void*);  // PyUnstable_InterpreterFrame_GetLine, from 3.12 on; else null
  Object* (*attribute)(Object*, const char*);
  Object* (*text)(const char*);  // PyUnicode_FromString
  const char* (*text_bytes)(Object*, std::ptrdiff_t*);
  void (*release)(Object*);  // Py_DecRef
  const char* code_type;     // PyCode_Type
};

// In bytes. Objects begin with a reference count and their type.
struct Layout {
  std::size_t in_thread = 0;  // of the innermost frame, or of what points to it
  bool indirect = false;
  std::size_t indirect_at = 0;
  std::size_t code = 0;  // in a frame
  std::size_t caller = 0;
  std::size_t file = 0;  // in a code object
  std::size_t name = 0;
  std::size_t text = 0;          // where an ASCII string's bytes begin
  std::uint64_t ascii_bits = 0;  // of its state, that only such strings have
};

constexpr std::size_t kType = sizeof(void*);
constexpr std::size_t kTextLength = 2 * sizeof(void*);
constexpr std::size_t kTextState = 4 * sizeof(void*);
constexpr std::size_t kBasicSize = 4 * sizeof(void*);         // tp_basicsize, in a type
constexpr std::size_t kInterpreterFrame = 3 * sizeof(void*);  // in a frame object, from 3.11 on
constexpr std::size_t kThreadWords = 32;

Python python;
Layout layout;
std::atomic<bool> learnt{false};

template <typename T = const char*>
T At(const void* object, std::size_t offset) noexcept {
  T value;
  std::memcpy(&value, static_cast<const char*>(object) + offset, sizeof value);
  return value;
}

unsigned Minor() noexcept { return (*python.version >> 16) & 0xff; }

bool FindPython() noexcept {
  bool all = true;
  const auto find = [&](auto& function, const char* name, bool required = true) {
    void* found = ::dlsym(RTLD_DEFAULT, name);
    std::memcpy(&function, &found, sizeof found);
    all = all && (found != nullptr || !required);
  };
  find(python.version, "Py_Version", false);
  find(python.this_thread, "PyGILState_GetThisThreadState");
  find(python.current_frame, "PyEval_GetFrame");
  find(python.code_of, "PyFrame_GetCode");
  find(python.caller_of, "PyFrame_GetBack");
  find(python.line_of, "PyFrame_GetLineNumber");
  find(python.line_at, "PyCode_Addr2Line");
  find(python.interpreter_line, "PyUnstable_InterpreterFrame_GetLine", false);
  find(python.attribute, "PyObject_GetAttrString");
  find(python.text, "PyUnicode_FromString");
  find(python.text_bytes, "PyUnicode_AsUTF8AndSize");
  find(python.release, "Py_DecRef");
  find(python.code_type, "PyCode_Type");
  static const unsigned long kBefore311 = 0x030a0000;  // the first version that has Py_Version is 3.11
  if (python.version == nullptr) python.version = &kBefore311;
  return all;
}

// Where `object`, a code object, has the attribute. 0: it cannot be seen.
std::size_t FindAttribute(Object* object, const char* name) noexcept {
  Object* value = python.attribute(object, name);
  if (value == nullptr) return 0;
  python.release(value);  // the object has it still
  const std::size_t size = At<std::size_t>(python.code_type, kBasicSize);
  for (std::size_t at = 2 * sizeof(void*); at + sizeof(void*) <= size; at += sizeof(void*))
    if (At<void*>(object, at) == value) return at;
  return 0;
}

bool LearnTexts() noexcept {
  Object* ascii = python.text("stalloc-ascii");
  Object* latin = python.text("stalloc-l\xc3\xa4tin");
  if (ascii != nullptr && latin != nullptr) {
    std::ptrdiff_t length = 0;
    layout.text = static_cast<std::size_t>(python.text_bytes(ascii, &length) - static_cast<const char*>(ascii));
    layout.ascii_bits = At<std::uint32_t>(ascii, kTextState) & ~At<std::uint32_t>(latin, kTextState);
  }
  if (ascii != nullptr) python.release(ascii);
  if (latin != nullptr) python.release(latin);
  return layout.text >= kTextState && layout.text < 128 && layout.ascii_bits != 0;
}

// Before 3.11 frames are objects; from then on those are made where somebody asks, and lie in the interpreter's own.
bool LearnThread(Object* frame, void* thread) noexcept {
  const void* innermost = Minor() < 11 ? frame : At<void*>(frame, kInterpreterFrame);
  layout.code = Minor() >= 12 ? 0 : 4 * sizeof(void*);
  layout.caller = Minor() >= 12 ? sizeof(void*) : Minor() == 11 ? 6 * sizeof(void*) : 3 * sizeof(void*);
  layout.indirect = Minor() == 11 || Minor() == 12;
  if (layout.indirect) {
    layout.in_thread = 7 * sizeof(void*);
    layout.indirect_at = Minor() == 11 ? sizeof(void*) : 0;
    const void* holder = At<void*>(thread, layout.in_thread);
    return holder != nullptr && At<void*>(holder, layout.indirect_at) == innermost;
  }
  for (std::size_t at = 0; at < kThreadWords * sizeof(void*); at += sizeof(void*)) {
    if (At<void*>(thread, at) != innermost) continue;
    layout.in_thread = at;
    return true;
  }
  return false;
}

std::string_view Text(const void* text) noexcept {
  if (text == nullptr || (At<std::uint32_t>(text, kTextState) & layout.ascii_bits) == 0) return {};
  return {static_cast<const char*>(text) + layout.text, At<std::size_t>(text, kTextLength)};
}

int LineOf(void* frame, void* code) noexcept {
  if (Minor() < 11) return python.line_of(frame);
  if (python.interpreter_line != nullptr) return python.interpreter_line(frame);
  const char* const first = static_cast<const char*>(code) + At<std::size_t>(python.code_type, kBasicSize);
  return python.line_at(code, static_cast<int>(At<const char*>(frame, 7 * sizeof(void*)) - first));
}

std::size_t Walk(PythonFrame* frames, std::size_t most) noexcept {
  void* thread = python.this_thread();
  if (thread == nullptr) return 0;
  void* frame = At<void*>(thread, layout.in_thread);
  if (layout.indirect && frame != nullptr) frame = At<void*>(frame, layout.indirect_at);
  std::size_t count = 0;
  for (int depth = 0; frame != nullptr && count < most && depth < 1000; ++depth) {
    // From 3.14 on the lowest bits say who owns the reference. Frames of C have something else for their code.
    void* code = reinterpret_cast<void*>(At<std::uintptr_t>(frame, layout.code) & ~std::uintptr_t{7});
    if (code != nullptr && At<const char*>(code, kType) == python.code_type) {
      PythonFrame one{code, 0, Text(At<void*>(code, layout.file)), Text(At<void*>(code, layout.name))};
      if (!one.file.starts_with("<shim>") && !one.name.starts_with("<interpreter trampoline>")) {
        one.line = LineOf(frame, code);
        frames[count++] = one;
      }
    }
    frame = At<void*>(frame, layout.caller);
  }
  return count;
}

// Are the stack as it is read and the stack as Python tells it the same?
bool Agrees(Object* frame) noexcept {
  PythonFrame frames[64];
  const std::size_t count = Walk(frames, 64);
  std::size_t at = 0;
  bool same = count != 0;
  for (Object* owned = nullptr; frame != nullptr && at < count && same; ++at) {
    Object* code = python.code_of(frame);
    same = frames[at].code == code && frames[at].line == python.line_of(frame);
    python.release(code);
    Object* caller = python.caller_of(frame);
    if (owned != nullptr) python.release(owned);
    frame = owned = caller;
    if (caller == nullptr || at + 1 == count || !same) {
      if (caller != nullptr) python.release(caller);
      same = same && ((caller == nullptr) == (at + 1 == count) || count == 64);
      break;
    }
  }
  return same;
}

}  // namespace

bool LearnPythonFrames() noexcept {
  if (learnt.load(std::memory_order_acquire)) return true;
  if (!FindPython()) return false;
  Object* frame = python.current_frame();
  void* thread = python.this_thread();
  if (frame == nullptr || thread == nullptr) return false;
  Object* code = python.code_of(frame);
  layout.file = FindAttribute(code, "co_filename");
  layout.name = FindAttribute(code, "co_name");
  python.release(code);
  if (layout.file == 0 || layout.name == 0 || !LearnTexts() || !LearnThread(frame, thread) || !Agrees(frame))
    return false;
  learnt.store(true, std::memory_order_release);
  return true;
}

std::size_t PythonStack(PythonFrame* frames, std::size_t most) noexcept {
  return learnt.load(std::memory_order_acquire) ? Walk(frames, most) : 0;
}

}  // namespace stalloc::runtime
