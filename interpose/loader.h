// The dynamic loader, past this library's own dlsym: the symbols of the program's libcuda and libcudart.
//
// Never loads a library: what the program has not loaded it has no business to get. Any thread; no locks of its own
// (every store is of the same value, whoever gets there first); allocates nothing itself, though the loader may.
#pragma once

namespace stalloc::interpose {

// dlsym itself, as the C library has it.
void* RealDlsymPointer() noexcept;
void* RealDlsym(void* handle, const char* name) noexcept;

// The program's libcuda.so.1, or null while it is not loaded.
void* DriverLibrary() noexcept;

// Null if the library is not loaded or has no such symbol.
void* DriverSymbol(const char* name) noexcept;
void* RuntimeSymbol(const char* name) noexcept;

}  // namespace stalloc::interpose
