#include "contents.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace stalloc::simcuda {
namespace {

// Below this size a copy's bytes are always kept, so that plain programs compute right; larger ones while the total
// stays under the budget.
constexpr std::size_t kAlwaysKeptBytes = 64 << 10;
constexpr std::size_t kKeptBytesBudget = 256 << 20;

std::atomic<std::size_t> kept_bytes{0};

// A tag in shared memory.
std::uint8_t TagByte(std::uint64_t tag, std::uint64_t offset) {
  return static_cast<std::uint8_t>(tag >> (8 * (offset % 8)));
}

std::uint64_t Mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

}  // namespace

ByteBuffer::ByteBuffer(const void* source, std::size_t size_bytes)
    : bytes_(static_cast<const std::uint8_t*>(source), static_cast<const std::uint8_t*>(source) + size_bytes) {
  kept_bytes += size_bytes;
}

ByteBuffer::~ByteBuffer() { kept_bytes -= bytes_.size(); }

std::size_t ByteBuffer::TotalBytes() { return kept_bytes; }

std::uint8_t Content::ByteAt(std::uint64_t offset) const {
  const std::uint64_t position = offset - origin;
  switch (kind) {
    case Kind::kFill:
      return static_cast<std::uint8_t>(value >> (8 * (position % 4)));
    case Kind::kBytes:
      return bytes->data()[position];
    case Kind::kTag:
      return static_cast<std::uint8_t>(Mix(value));  // nobody wrote it, but it differs from tag to tag
    case Kind::kUntouched:
      break;
  }
  return 0;  // the driver hands out scrubbed memory
}

bool Content::Continues(const Content& before) const {
  if (kind != before.kind || value != before.value || bytes != before.bytes) return false;
  return kind == Kind::kUntouched || kind == Kind::kTag || origin == before.origin ||
         (kind == Kind::kFill && (origin - before.origin) % 4 == 0);
}

std::string Content::ToString() const {
  switch (kind) {
    case Kind::kTag:
      return "tag " + std::to_string(value);
    case Kind::kFill:
      return "fill " + std::to_string(value);
    case Kind::kBytes:
      return "bytes from the host";
    case Kind::kUntouched:
      break;
  }
  return "nothing yet";
}

Content TagContent(std::uint64_t tag) { return {Content::Kind::kTag, tag, 0, nullptr}; }

Content FillContent(std::uint32_t pattern, std::uint64_t offset) {
  return {Content::Kind::kFill, pattern, offset, nullptr};
}

Content HostContent(const void* source, std::size_t size_bytes, std::uint64_t offset) {
  const auto* bytes = static_cast<const std::uint8_t*>(source);
  if (std::all_of(bytes, bytes + size_bytes, [&](std::uint8_t byte) { return byte == bytes[0]; })) {
    return FillContent(bytes[0] * 0x01010101u, offset);
  }
  if (size_bytes <= kAlwaysKeptBytes || ByteBuffer::TotalBytes() + size_bytes <= kKeptBytesBudget) {
    return {Content::Kind::kBytes, 0, offset, std::make_shared<const ByteBuffer>(source, size_bytes)};
  }
  std::uint64_t hash = Mix(size_bytes);
  for (std::size_t i = 0; i < size_bytes; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min<std::size_t>(8, size_bytes - i));
    hash = Mix(hash ^ word);
  }
  return {Content::Kind::kTag, hash, offset, nullptr};
}

std::map<std::uint64_t, Content>::iterator Contents::Cut(std::uint64_t offset) {
  if (offset >= size_bytes_) return intervals_.end();
  auto it = std::prev(intervals_.upper_bound(offset));
  if (it->first == offset) return it;
  return intervals_.emplace_hint(std::next(it), offset, it->second);
}

void Contents::Write(std::uint64_t offset, std::uint64_t size_bytes, const Content& content) {
  if (size_bytes == 0) return;
  if (shared_ != nullptr) return WriteBytes(offset, size_bytes, content);
  if (offset == 0 && size_bytes == size_bytes_) {  // a whole page: the common case
    intervals_.erase(std::next(intervals_.begin()), intervals_.end());
    intervals_.begin()->second = content;
    return;
  }
  auto first = Cut(offset);
  const auto last = Cut(offset + size_bytes);
  first->second = content;
  intervals_.erase(std::next(first), last);
  // Join with the neighbours, so that many small writes of one content do not pile up.
  if (last != intervals_.end() && last->second.Continues(content)) intervals_.erase(last);
  if (first != intervals_.begin() && content.Continues(std::prev(first)->second)) intervals_.erase(first);
}

void Contents::WriteBytes(std::uint64_t offset, std::uint64_t size_bytes, const Content& content) {
  std::uint8_t* to = shared_->data() + offset;
  switch (content.kind) {
    case Content::Kind::kUntouched:
      return shared_->Clear(offset, size_bytes);
    case Content::Kind::kBytes:
      std::memcpy(to, content.bytes->data() + (offset - content.origin), size_bytes);
      return;
    case Content::Kind::kFill:
      if (content.value == 0) return shared_->Clear(offset, size_bytes);
      for (std::uint64_t i = 0; i < size_bytes; ++i) to[i] = content.ByteAt(offset + i);
      return;
    case Content::Kind::kTag:
      for (std::uint64_t i = 0; i < size_bytes; ++i) to[i] = TagByte(content.value, offset + i);
      return;
  }
}

bool Contents::Share(std::shared_ptr<SharedContents> file, bool opened) {
  if (file == nullptr || file->size_bytes() < size_bytes_) return false;
  std::vector<Piece> pieces;
  if (!opened) pieces = Read(0, size_bytes_);
  shared_ = std::move(file);
  for (const Piece& piece : pieces) {
    if (piece.content.kind != Content::Kind::kUntouched) WriteBytes(piece.offset, piece.size_bytes, piece.content);
  }
  intervals_.clear();
  return true;
}

std::vector<Contents::Piece> Contents::Read(std::uint64_t offset, std::uint64_t size_bytes) const {
  std::vector<Piece> pieces;
  if (shared_ != nullptr) {
    auto bytes = std::make_shared<const ByteBuffer>(shared_->data() + offset, size_bytes);
    pieces.push_back({offset, size_bytes, {Content::Kind::kBytes, 0, offset, std::move(bytes)}});
    return pieces;
  }
  const std::uint64_t end = offset + size_bytes;
  for (auto it = std::prev(intervals_.upper_bound(offset)); it != intervals_.end() && it->first < end; ++it) {
    const auto next = std::next(it);
    const std::uint64_t begin = std::max(it->first, offset);
    const std::uint64_t piece_end = std::min(next == intervals_.end() ? size_bytes_ : next->first, end);
    pieces.push_back({begin, piece_end - begin, it->second});
  }
  return pieces;
}

std::optional<Contents::Piece> Contents::FindOther(std::uint64_t offset, std::uint64_t size_bytes,
                                                   std::uint64_t tag) const {
  if (shared_ != nullptr) {
    for (std::uint64_t at = offset; at < offset + size_bytes; ++at) {
      if (shared_->data()[at] != TagByte(tag, at)) return Read(at, offset + size_bytes - at).front();
    }
    return std::nullopt;
  }
  const std::uint64_t end = offset + size_bytes;
  for (auto it = std::prev(intervals_.upper_bound(offset)); it != intervals_.end() && it->first < end; ++it) {
    if (it->second.kind == Content::Kind::kTag && it->second.value == tag) continue;
    const auto next = std::next(it);
    const std::uint64_t begin = std::max(it->first, offset);
    return Piece{begin, std::min(next == intervals_.end() ? size_bytes_ : next->first, end) - begin, it->second};
  }
  return std::nullopt;
}

}  // namespace stalloc::simcuda
