// Reads and writes files as a whole with plain POSIX calls. Any thread; may allocate; never throws but bad_alloc.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/result.h"

namespace stalloc::planner {

// At most `limit_bytes`: a larger file is refused before anything is read.
Result<std::vector<std::byte>> ReadWholeFile(const std::string& path, std::size_t limit_bytes);

// A name beside `path` that nobody else uses, on any host that shares the folder: `path`, `infix`, and what tells this
// moment of this process from all others. Process numbers alone do not: each container counts from 1.
std::string NameBeside(const std::string& path, std::string_view infix);

// The file is there whole or not at all: written under another name beside it, fsync'ed, renamed, and the folder
// fsync'ed. An existing file is replaced only if `overwrite`; a link to it stays one. A device, a pipe, or what this
// process has open (/dev/stdout) is not replaced but written into, whatever `overwrite` says. nullopt: done.
std::optional<FileError> WriteWholeFile(const std::string& path, std::span<const std::byte> contents, bool overwrite);

// Whether a file is there, not empty, that does not begin with `magic`, or cannot be read: it is somebody else's, and a
// slip of the hand away from being lost. What is no regular file (a device, a pipe) is not.
bool HoldsSomethingElse(const std::string& path, std::span<const char> magic);

// True for what cannot be replaced but only be written into: a device, a pipe, or what this process has open.
bool IsStream(const std::string& path);

// Why WriteWholeFile could not, or should not, replace what is at `path` with a file that begins with `magic`: its
// folder takes no file, or something else is there. nullopt: nothing is known to be in the way.
std::optional<FileError> FindObstacle(const std::string& path, std::span<const char> magic);

}  // namespace stalloc::planner
