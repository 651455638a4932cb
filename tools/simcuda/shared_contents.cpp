#include "shared_contents.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace stalloc::simcuda {
namespace {

// The last page of the file says what it is; the contents begin at its first byte.
struct Trailer {
  char magic[8];
  std::uint64_t id;
  std::int32_t device;
};

constexpr char kMagic[8] = {'s', 'i', 'm', 'c', 'u', 'd', 'a', '1'};
constexpr off_t kTrailerBytes = 4096;

}  // namespace

std::shared_ptr<SharedContents> SharedContents::Create(std::uint64_t size_bytes, int device) {
  static std::uint32_t made_before = 0;
  const int descriptor = memfd_create("simcuda", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  Trailer trailer{};
  std::memcpy(trailer.magic, kMagic, sizeof(kMagic));
  trailer.device = device;
  trailer.id = static_cast<std::uint64_t>(getpid()) << 32 | ++made_before;
  const auto end = static_cast<off_t>(size_bytes);
  const bool written = ftruncate(descriptor, end + kTrailerBytes) == 0 &&
                       pwrite(descriptor, &trailer, sizeof(trailer), end) == static_cast<ssize_t>(sizeof(trailer));
  std::shared_ptr<SharedContents> contents = written ? Map(descriptor) : nullptr;
  if (contents == nullptr) close(descriptor);
  return contents;
}

std::shared_ptr<SharedContents> SharedContents::Open(int descriptor) {
  const int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return nullptr;
  std::shared_ptr<SharedContents> contents = Map(own);
  if (contents == nullptr) close(own);
  return contents;
}

std::shared_ptr<SharedContents> SharedContents::OpenOf(int process, int descriptor, std::uint64_t id) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor);
  const int own = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (own < 0) return nullptr;
  std::shared_ptr<SharedContents> contents = Map(own);
  if (contents == nullptr) close(own);
  // The descriptor may have come to stand for another file.
  return contents != nullptr && contents->id_ == id ? contents : nullptr;
}

std::shared_ptr<SharedContents> SharedContents::Map(int descriptor) {
  struct stat file {};
  Trailer trailer{};
  if (fstat(descriptor, &file) != 0 || file.st_size <= kTrailerBytes) return nullptr;
  const std::uint64_t size_bytes = static_cast<std::uint64_t>(file.st_size - kTrailerBytes);
  if (pread(descriptor, &trailer, sizeof(trailer), static_cast<off_t>(size_bytes)) !=
          static_cast<ssize_t>(sizeof(trailer)) ||
      std::memcmp(trailer.magic, kMagic, sizeof(kMagic)) != 0)
    return nullptr;
  void* memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::shared_ptr<SharedContents> contents(new SharedContents);
  contents->descriptor_ = descriptor;
  contents->data_ = static_cast<std::uint8_t*>(memory);
  contents->size_bytes_ = size_bytes;
  contents->device_ = trailer.device;
  contents->id_ = trailer.id;
  return contents;
}

SharedContents::~SharedContents() {
  munmap(data_, size_bytes_);
  close(descriptor_);
}

void SharedContents::Clear(std::uint64_t offset, std::uint64_t size_bytes) {
  if (fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(size_bytes)) != 0)
    std::memset(data_ + offset, 0, size_bytes);
}

}  // namespace stalloc::simcuda
