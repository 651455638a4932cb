// A file's contents, unpacked where it is gzipped: told by its first bytes, never by its name. Target
// stalloc_planner_csv (needs zlib; never part of libstalloc.so). A reader is used by one thread at a time, any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "planner/result.h"

namespace stalloc::planner {

class UnpackedFile {
 public:
  // A directory is refused; so is a pipe, for whoever reads a file looks at its first bytes before.
  static Result<std::unique_ptr<UnpackedFile>> Open(const std::string& path);
  ~UnpackedFile();
  UnpackedFile(const UnpackedFile&) = delete;
  UnpackedFile& operator=(const UnpackedFile&) = delete;

  // Puts up to `size` bytes, the next ones, at `to` and says how many: fewer only at the end. A gzip stream that is
  // damaged or cut off is an error, with the byte of the unpacked contents up to which it is whole.
  Result<std::size_t> Read(void* to, std::size_t size);

  // Of the last error of Read: the stream was whole up to there, and then it ended.
  bool cut_off() const;
  bool gzipped() const;

 private:
  struct State;
  explicit UnpackedFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace stalloc::planner
