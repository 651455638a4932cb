// Contents: what one physical allocation holds, as a map of intervals instead of bytes.
//
// An interval is untouched memory, a tag, a fill pattern, or real bytes where a program copied some in. A 140 GiB
// device therefore costs what its distinct writes cost. Memory that is given to other processes has real bytes in a
// file instead (shared_contents.h). Called under the machine's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared_contents.h"

namespace stalloc::simcuda {

// Bytes that a program copied to the device, shared by all intervals that hold a part of them.
class ByteBuffer {
 public:
  ByteBuffer(const void* source, std::size_t size_bytes);
  ~ByteBuffer();
  ByteBuffer(const ByteBuffer&) = delete;
  ByteBuffer& operator=(const ByteBuffer&) = delete;

  const std::uint8_t* data() const { return bytes_.data(); }
  static std::size_t TotalBytes();

 private:
  std::vector<std::uint8_t> bytes_;
};

// What an interval holds. `origin` is the offset at which the content began before it was cut: byte k of it lies at
// origin + k. Unsigned wrap-around is meant.
struct Content {
  enum class Kind : std::uint8_t { kUntouched, kTag, kFill, kBytes };

  Kind kind = Kind::kUntouched;
  std::uint64_t value = 0;  // the tag; or the fill pattern, 4 bytes repeated in the two halves
  std::uint64_t origin = 0;
  std::shared_ptr<const ByteBuffer> bytes;

  std::uint8_t ByteAt(std::uint64_t offset) const;
  bool Continues(const Content& before) const;  // the same content, cut elsewhere
  std::string ToString() const;
};

Content TagContent(std::uint64_t tag);
// Contents of a copy from the host that starts at `offset`. Data too large to keep becomes a tag made from its hash.
Content HostContent(const void* source, std::size_t size_bytes, std::uint64_t offset);
Content FillContent(std::uint32_t pattern, std::uint64_t offset);

class Contents {
 public:
  explicit Contents(std::uint64_t size_bytes) : size_bytes_(size_bytes) { intervals_.emplace(0, Content{}); }

  struct Piece {
    std::uint64_t offset;
    std::uint64_t size_bytes;
    Content content;
  };

  // [offset, offset + size) must lie inside the allocation.
  void Write(std::uint64_t offset, std::uint64_t size_bytes, const Content& content);
  std::vector<Piece> Read(std::uint64_t offset, std::uint64_t size_bytes) const;

  // From now on they are in a file, which other processes may have too; `opened`: what it holds counts, not what this
  // had. False if the file could not be made.
  bool Share(std::shared_ptr<SharedContents> file, bool opened);
  const std::shared_ptr<SharedContents>& shared() const { return shared_; }

  // The first piece of the range that is not labelled `tag`, if there is one.
  std::optional<Piece> FindOther(std::uint64_t offset, std::uint64_t size_bytes, std::uint64_t tag) const;

 private:
  // An iterator to the interval that begins at `offset`, after cutting the one that contains it.
  std::map<std::uint64_t, Content>::iterator Cut(std::uint64_t offset);

  void WriteBytes(std::uint64_t offset, std::uint64_t size_bytes, const Content& content);

  std::uint64_t size_bytes_;
  std::shared_ptr<SharedContents> shared_;      // null: `intervals_` counts
  std::map<std::uint64_t, Content> intervals_;  // begin -> content, up to the next begin
};

}  // namespace stalloc::simcuda
