// The adapter for Python programs: see python_adapter.cpp.
#pragma once

namespace stalloc::interpose {

// dlsym of an extension module's PyInit function, which also runs the adapter, once.
void* LookUpPyInit(void* handle, const char* name) noexcept;

}  // namespace stalloc::interpose
