// Where libstalloc.so is, and what LD_PRELOAD becomes with it.
#pragma once

#include <filesystem>
#include <string>

namespace stalloc::tools {

// The tree that this command lies in: PREFIX, for PREFIX/bin/stalloc.
std::filesystem::path CommandPrefix();

// The library that belongs to this command: ../lib/libstalloc.so beside the directory in which the executable lies.
// Throws Failure(kInternal) if it is not there.
std::filesystem::path FindLibrary();

// `library` before what `preloads` (the value of LD_PRELOAD, possibly empty) lists already, once. Throws
// Failure(kInternal) if the path holds a colon or white space, which the dynamic linker would take for a separator.
std::string PrependPreload(const std::filesystem::path& library, const std::string& preloads);

}  // namespace stalloc::tools
