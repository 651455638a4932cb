// CodeName: an address of code as a person reads it, "function+0x12 (library.so+0x3456)".
//
// Asks the dynamic loader, which knows exported functions alone; of others the module and the offset remain, for
// addr2line. For reports: takes the loader's lock and allocates.
#pragma once

#include <cstdint>
#include <string>

namespace stalloc::runtime {

// `return_address` as a stack walk gives it: the name is that of the call before it.
std::string CodeName(std::uintptr_t return_address);

}  // namespace stalloc::runtime
