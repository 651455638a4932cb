#include "work.h"

#include <cstdio>
#include <cstring>

#include "machine.h"

namespace stalloc::simcuda {
namespace {

// Of device memory, as far as the simulation has a clock: what an H200 was measured to copy.
constexpr std::uint64_t kBytesPerMicrosecond = 4'200'000;

std::uint64_t DurationOf(std::uint64_t size_bytes) { return size_bytes * 1000 / kBytesPerMicrosecond; }

bool IsOneByte(std::uint64_t pattern) { return pattern == (pattern & 0xff) * 0x01010101u; }

bool MayAccess(const Mapping& mapping, const Context& context, bool write) {
  const std::uint32_t allowed = write ? mapping.writable : mapping.readable;
  if ((allowed >> context.device) & 1) return true;
  return mapping.kind == Mapping::Kind::kMalloc && context.peers.contains(mapping.physical->device->index());
}

void NoteCorruption(Machine& machine, const Stream& stream, const simcudaRange& read, CUdeviceptr where,
                    const Content& found) {
  if (machine.corruptions++ != 0) return;
  char text[320];
  std::snprintf(
      text, sizeof(text),
      "device %d, stream %llu, operation %llu: a read of %zu bytes at 0x%llx expected tag %llu and found %s at "
      "0x%llx",
      stream.context->device, static_cast<unsigned long long>(stream.id),
      static_cast<unsigned long long>(stream.completed + 1), read.size_bytes, read.address,
      static_cast<unsigned long long>(read.tag), found.ToString().c_str(), where);
  machine.first_corruption = text;
}

// Writes content that begins at `address`, across mappings. Access was checked.
void WriteContent(Machine& machine, CUdeviceptr address, std::uint64_t size_bytes, const Content& content) {
  CUdeviceptr fault = 0;
  std::uint64_t done = 0;
  machine.space.Visit(address, size_bytes, &fault,
                      [&](const Mapping& mapping, std::uint64_t offset, std::uint64_t size) {
                        Content piece = content;
                        piece.origin = offset - (done - content.origin);  // content.origin counts from `address`
                        mapping.physical->contents.Write(offset, size, piece);
                        done += size;
                        return true;
                      });
}

template <typename Allowed>
CUresult CheckRange(Machine& machine, CUdeviceptr address, std::uint64_t size_bytes, Allowed allowed) {
  if (size_bytes == 0) return CUDA_SUCCESS;
  std::uint64_t begin = 0;
  if (const HostRange* host = machine.FindHostRange(address, &begin)) {
    return address + size_bytes <= begin + host->size_bytes ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  CUdeviceptr fault = 0;
  const bool accessible =
      address + size_bytes > address &&
      machine.space.Visit(address, size_bytes, &fault,
                          [&](const Mapping& mapping, std::uint64_t, std::uint64_t) { return allowed(mapping); });
  return accessible ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult CheckEnd(Machine& machine, const Stream& stream, const CopyEnd& end, std::uint64_t size_bytes, bool write) {
  const Context& context = end.context != nullptr ? *end.context : *stream.context;
  return CheckTransfer(machine, context, end.address, size_bytes, write);
}

}  // namespace

CUresult CheckAccess(Machine& machine, const Context& context, CUdeviceptr address, std::uint64_t size_bytes,
                     bool write) {
  return CheckRange(machine, address, size_bytes,
                    [&](const Mapping& mapping) { return MayAccess(mapping, context, write); });
}

CUresult CheckTransfer(Machine& machine, const Context& context, CUdeviceptr address, std::uint64_t size_bytes,
                       bool write) {
  return CheckRange(machine, address, size_bytes, [&](const Mapping& mapping) {
    return mapping.kind == Mapping::Kind::kMalloc || MayAccess(mapping, context, write);
  });
}

CUresult Kernel::Run(Machine& machine, Stream& stream) {
  for (const simcudaRange& read : reads_) {
    if (const CUresult error = CheckAccess(machine, *stream.context, read.address, read.size_bytes, false))
      return error;
    if (read.tag == 0 || machine.FindHostRange(read.address) != nullptr) continue;
    CUdeviceptr fault = 0, at = read.address;
    machine.space.Visit(read.address, read.size_bytes, &fault,
                        [&](const Mapping& mapping, std::uint64_t offset, std::uint64_t size) {
                          const auto other = mapping.physical->contents.FindOther(offset, size, read.tag);
                          if (other) NoteCorruption(machine, stream, read, at + other->offset - offset, other->content);
                          at += size;
                          return !other;
                        });
  }
  for (const simcudaRange& write : writes_) {
    if (const CUresult error = CheckAccess(machine, *stream.context, write.address, write.size_bytes, true))
      return error;
    if (machine.FindHostRange(write.address) == nullptr)
      WriteContent(machine, write.address, write.size_bytes, TagContent(write.tag));
  }
  return CUDA_SUCCESS;
}

Fill::Fill(CUdeviceptr address, std::uint64_t size_bytes, std::uint32_t pattern)
    : Work(DurationOf(size_bytes)), address_(address), size_bytes_(size_bytes), pattern_(pattern) {}

CUresult Fill::Run(Machine& machine, Stream& stream) {
  if (const CUresult error = CheckTransfer(machine, *stream.context, address_, size_bytes_, true)) return error;
  if (machine.FindHostRange(address_) != nullptr) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(address_);
    for (std::uint64_t i = 0; i < size_bytes_; ++i) bytes[i] = static_cast<std::uint8_t>(pattern_ >> (8 * (i % 4)));
    return CUDA_SUCCESS;
  }
  WriteContent(machine, address_, size_bytes_, FillContent(pattern_, 0));
  return CUDA_SUCCESS;
}

Copy::Copy(CopyEnd destination, CopyEnd source, std::uint64_t size_bytes, std::vector<std::uint8_t> snapshot)
    : Work(DurationOf(size_bytes)),
      destination_(destination),
      source_(source),
      size_bytes_(size_bytes),
      snapshot_(std::move(snapshot)) {}

CUresult Copy::Run(Machine& machine, Stream& stream) {
  if (source_.on_device) {
    if (const CUresult error = CheckEnd(machine, stream, source_, size_bytes_, false)) return error;
  }
  if (destination_.on_device) {
    if (const CUresult error = CheckEnd(machine, stream, destination_, size_bytes_, true)) return error;
  }
  if (!source_.on_device) {
    const void* source = snapshot_.empty() ? reinterpret_cast<const void*>(source_.address) : snapshot_.data();
    if (destination_.on_device) {
      WriteContent(machine, destination_.address, size_bytes_, HostContent(source, size_bytes_, 0));
    } else {
      std::memmove(reinterpret_cast<void*>(destination_.address), source, size_bytes_);
    }
    return CUDA_SUCCESS;
  }
  // From the device: gather the pieces first, the ranges may overlap or alias.
  struct Piece {
    std::uint64_t begin, size_bytes;  // relative to the copy
    Content content;
  };
  std::vector<Piece> pieces;
  std::uint64_t done = 0;
  CUdeviceptr fault = 0;
  machine.space.Visit(source_.address, size_bytes_, &fault,
                      [&](const Mapping& mapping, std::uint64_t offset, std::uint64_t size) {
                        for (Contents::Piece& piece : mapping.physical->contents.Read(offset, size)) {
                          const std::uint64_t begin = done + piece.offset - offset;
                          piece.content.origin += begin - piece.offset;  // now counts from the copy's begin
                          pieces.push_back({begin, piece.size_bytes, std::move(piece.content)});
                        }
                        done += size;
                        return true;
                      });
  for (Piece& piece : pieces) {
    if (destination_.on_device) {
      piece.content.origin -= piece.begin;
      WriteContent(machine, destination_.address + piece.begin, piece.size_bytes, piece.content);
      continue;
    }
    auto* target = reinterpret_cast<std::uint8_t*>(destination_.address) + piece.begin;
    if (piece.content.kind == Content::Kind::kBytes) {
      std::memcpy(target, piece.content.bytes->data() + (piece.begin - piece.content.origin), piece.size_bytes);
    } else if (piece.content.kind == Content::Kind::kFill && !IsOneByte(piece.content.value)) {
      for (std::uint64_t i = 0; i < piece.size_bytes; ++i) target[i] = piece.content.ByteAt(piece.begin + i);
    } else {
      std::memset(target, piece.content.ByteAt(piece.begin), piece.size_bytes);
    }
  }
  return CUDA_SUCCESS;
}

CUresult WriteWord::Run(Machine& machine, Stream& stream) {
  if (const CUresult error = CheckAccess(machine, *stream.context, address_, size_bytes_, true)) return error;
  if (machine.FindHostRange(address_) != nullptr)
    std::memcpy(reinterpret_cast<void*>(address_), &value_, size_bytes_);
  else
    WriteContent(machine, address_, size_bytes_, HostContent(&value_, size_bytes_, 0));
  return CUDA_SUCCESS;
}

CUresult ReleaseBlock::Run(Machine& machine, Stream&) {
  machine.blocks.Release(address_);
  return CUDA_SUCCESS;
}

}  // namespace stalloc::simcuda
