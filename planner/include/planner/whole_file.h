// Reads and writes files as a whole with plain POSIX calls. Any thread; may allocate; never throws but bad_alloc.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/result.h"

namespace stalloc::planner {

// At most `limit_bytes`: a larger file is refused before anything is read.
Result<std::vector<std::byte>> ReadWholeFile(const std::string& path, std::size_t limit_bytes);

// The file is there whole or not at all: written under another name beside it, fsync'ed, renamed, and the folder
// fsync'ed. An existing file is replaced only if `overwrite`. nullopt: done.
std::optional<FileError> WriteWholeFile(const std::string& path, std::span<const std::byte> contents, bool overwrite);

}  // namespace stalloc::planner
