#include "call_sites/module_map.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <span>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stalloc::runtime {
namespace {

// An executable segment of a module.
struct Segment {
  std::uintptr_t begin, end;
  std::uintptr_t load_address;
  std::uint64_t module;
  bool own;
};

// Lies in a mapping of its own, segments behind the head: made while a request of the program is served, so not from
// malloc.
struct Snapshot {
  unsigned long long loads, unloads;  // the loader's counts when it was made
  std::uint64_t main_module;
  std::size_t count, room;

  Segment* segments() { return reinterpret_cast<Segment*>(this + 1); }
  std::span<const Segment> by_address() const { return {reinterpret_cast<const Segment*>(this + 1), count}; }
  static std::size_t SizeBytes(std::size_t room) { return sizeof(Snapshot) + room * sizeof(Segment); }
};

constinit std::atomic<const Snapshot*> current_snapshot{nullptr};

std::span<const ElfW(Phdr)> Headers(const dl_phdr_info& info) { return {info.dlpi_phdr, info.dlpi_phnum}; }

bool IsCode(const ElfW(Phdr) & header) { return header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0; }

std::size_t AlignUp(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// The build id among the notes in [at, at + size); empty if it is not there. Note: three 32-bit words (length of the
// name, length of the description, type), the name "GNU" and the description, both padded to the segment's alignment.
std::span<const unsigned char> BuildIdIn(const unsigned char* at, std::size_t size, std::size_t alignment) {
  alignment = alignment == 8 ? 8 : 4;
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof(note));
    const std::size_t description = AlignUp(sizeof(note) + note.n_namesz, alignment);
    const std::size_t next = AlignUp(description + note.n_descsz, alignment);
    if (description + note.n_descsz > size) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(at + sizeof(note), "GNU", 4) == 0) {
      return {at + description, note.n_descsz};
    }
    if (next >= size) break;
    at += next;
    size -= next;
  }
  return {};
}

bool IsMapped(const dl_phdr_info& info, const ElfW(Phdr) & header) {
  return std::ranges::any_of(Headers(info), [&](const ElfW(Phdr) & load) {
    return load.p_type == PT_LOAD && (load.p_flags & PF_R) != 0 && load.p_vaddr <= header.p_vaddr &&
           header.p_vaddr + header.p_memsz <= load.p_vaddr + load.p_filesz;
  });
}

// Names the module by its build id or, where it was linked without one, by its file's name and segments.
std::uint64_t ModuleHash(const dl_phdr_info& info) {
  for (const ElfW(Phdr) & header : Headers(info)) {
    if (header.p_type != PT_NOTE || !IsMapped(info, header)) continue;
    const auto* notes =
        reinterpret_cast<const unsigned char*>(info.dlpi_addr + header.p_vaddr);  // NOLINT(performance-no-int-to-ptr)
    const std::span<const unsigned char> id = BuildIdIn(notes, header.p_memsz, header.p_align);
    if (!id.empty()) return XXH3_64bits(id.data(), id.size());
  }
  const char* slash = std::strrchr(info.dlpi_name, '/');
  const char* file = slash != nullptr ? slash + 1 : info.dlpi_name;
  std::uint64_t hash = XXH3_64bits(file, std::strlen(file));
  for (const ElfW(Phdr) & header : Headers(info)) {
    const std::uint64_t shape[] = {header.p_type, header.p_vaddr, header.p_memsz, header.p_filesz};
    hash = XXH3_64bits_withSeed(shape, sizeof(shape), hash);
  }
  return hash;
}

struct Counted {
  std::size_t segments = 0;
  unsigned long long loads = 0, unloads = 0;
};

int Count(dl_phdr_info* info, std::size_t, void* data) {
  auto* counted = static_cast<Counted*>(data);
  counted->loads = info->dlpi_adds;
  counted->unloads = info->dlpi_subs;
  counted->segments += static_cast<std::size_t>(std::ranges::count_if(Headers(*info), IsCode));
  return 0;
}

// Only the counts of loads and unloads: the first module tells them.
int CountLoads(dl_phdr_info* info, std::size_t size, void* data) {
  Count(info, size, data);
  return 1;
}

struct Filling {
  Snapshot* snapshot;
  bool overflow = false;
  bool first = true;  // the loader lists the main program first
};

int Fill(dl_phdr_info* info, std::size_t, void* data) {
  auto* filling = static_cast<Filling*>(data);
  Snapshot& snapshot = *filling->snapshot;
  const auto here = reinterpret_cast<std::uintptr_t>(&Fill);
  const std::uint64_t module = ModuleHash(*info);
  if (filling->first) snapshot.main_module = module;
  for (const ElfW(Phdr) & header : Headers(*info)) {
    if (!IsCode(header)) continue;
    if (snapshot.count == snapshot.room) return filling->overflow = true, 1;
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    const std::uintptr_t end = begin + header.p_memsz;
    snapshot.segments()[snapshot.count++] = Segment{.begin = begin,
                                                    .end = end,
                                                    .load_address = info->dlpi_addr,
                                                    .module = module,
                                                    .own = !filling->first && begin <= here && here < end};
  }
  filling->first = false;
  snapshot.loads = info->dlpi_adds;
  snapshot.unloads = info->dlpi_subs;
  return 0;
}

// nullptr: no memory.
Snapshot* MakeSnapshot() noexcept {
  for (;;) {
    Counted counted;
    ::dl_iterate_phdr(&Count, &counted);
    const std::size_t room = counted.segments + 16;  // some may be loaded in between
    void* memory =
        ::mmap(nullptr, Snapshot::SizeBytes(room), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    auto* snapshot = new (memory) Snapshot{};
    snapshot->room = room;
    Filling filling{.snapshot = snapshot};
    ::dl_iterate_phdr(&Fill, &filling);
    if (!filling.overflow) {
      std::sort(snapshot->segments(), snapshot->segments() + snapshot->count,
                [](const Segment& a, const Segment& b) { return a.begin < b.begin; });
      return snapshot;
    }
    ::munmap(memory, Snapshot::SizeBytes(room));
  }
}

// Puts a new snapshot in the place of `old`, unless another thread has done so meanwhile; returns the one in force.
const Snapshot* Refresh(const Snapshot* old) noexcept {
  Snapshot* made = MakeSnapshot();
  if (made == nullptr) return old;
  if (current_snapshot.compare_exchange_strong(old, made, std::memory_order_acq_rel)) return made;
  ::munmap(made, Snapshot::SizeBytes(made->room));  // nobody has seen it
  return old;
}

const Segment* Find(const Snapshot& snapshot, std::uintptr_t address) noexcept {
  const std::span<const Segment> segments = snapshot.by_address();
  const auto after = std::upper_bound(segments.begin(), segments.end(), address,
                                      [](std::uintptr_t a, const Segment& s) { return a < s.begin; });
  if (after == segments.begin()) return nullptr;
  const Segment& candidate = *(after - 1);
  return address < candidate.end ? &candidate : nullptr;
}

bool IsCurrent(const Snapshot& snapshot) noexcept {
  Counted counted;
  ::dl_iterate_phdr(&CountLoads, &counted);
  return counted.loads == snapshot.loads && counted.unloads == snapshot.unloads;
}

const Snapshot* AnySnapshot() noexcept {
  const Snapshot* snapshot = current_snapshot.load(std::memory_order_acquire);
  return snapshot != nullptr ? snapshot : Refresh(nullptr);
}

}  // namespace

CodeLocation Locate(std::uintptr_t address) noexcept {
  const Snapshot* snapshot = AnySnapshot();
  const Segment* segment = snapshot != nullptr ? Find(*snapshot, address) : nullptr;
  if (segment == nullptr && snapshot != nullptr && !IsCurrent(*snapshot)) {
    snapshot = Refresh(snapshot);
    segment = Find(*snapshot, address);
  }
  if (segment == nullptr) return CodeLocation{.module = kAnonymousModule};
  return CodeLocation{.module = segment->module, .offset = address - segment->load_address, .own = segment->own};
}

std::uint64_t MainModule() noexcept {
  const Snapshot* snapshot = AnySnapshot();
  return snapshot != nullptr ? snapshot->main_module : 0;
}

}  // namespace stalloc::runtime
