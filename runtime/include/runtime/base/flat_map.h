// FlatMap: open addressing from a non-zero 64-bit key to a small value, with linear probing and backward-shift erase.
//
// The serving path looks up and changes it under the device's lock; it grows by doubling when half full, which is the
// only time it allocates. Where the host has no memory for that it goes on filling what it has, and grows later; only
// where nothing is left of that either is bad_alloc thrown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace stalloc::runtime {

template <typename Value>
class FlatMap {
 public:
  explicit FlatMap(std::size_t expected = 1024) { Rebuild(expected * 2); }

  // Precondition: `key` is not 0.
  Value* Find(std::uint64_t key) noexcept {
    for (std::size_t i = Home(key);; i = (i + 1) & mask_) {
      if (entries_[i].key == key) return &entries_[i].value;
      if (entries_[i].key == 0) return nullptr;
    }
  }
  const Value* Find(std::uint64_t key) const noexcept { return const_cast<FlatMap*>(this)->Find(key); }

  // Replaces the value if the key is there.
  void Insert(std::uint64_t key, const Value& value) { At(key) = value; }

  // Afterwards a key can be added and nothing is thrown.
  void MakeRoom() {
    if (size_ * 2 >= mask_) [[unlikely]]
      Grow();
  }

  // The value of a key, which is added if it is not there: to be written where it stays.
  Value& At(std::uint64_t key) {
    MakeRoom();
    std::size_t i = Home(key);
    while (entries_[i].key != 0 && entries_[i].key != key) i = (i + 1) & mask_;
    if (entries_[i].key == 0) ++size_;
    entries_[i].key = key;
    return entries_[i].value;
  }

  // 0 is no key, and never there.
  bool Erase(std::uint64_t key) noexcept { return key != 0 && Extract(key, nullptr); }

  // Erases the key and, where `value` is not null, stores its value there.
  bool Extract(std::uint64_t key, Value* value) noexcept {
    std::size_t hole = Home(key);
    while (entries_[hole].key != key) {
      if (entries_[hole].key == 0) return false;
      hole = (hole + 1) & mask_;
    }
    if (value != nullptr) *value = entries_[hole].value;
    for (std::size_t i = (hole + 1) & mask_; entries_[i].key != 0; i = (i + 1) & mask_) {
      // An entry may move into the hole unless its home lies cyclically in (hole, i].
      if (((i - Home(entries_[i].key)) & mask_) >= ((i - hole) & mask_)) {
        entries_[hole] = entries_[i];
        hole = i;
      }
    }
    entries_[hole].key = 0;
    --size_;
    return true;
  }

  // Keeps its room.
  void Clear() noexcept {
    for (Entry& entry : entries_) entry.key = 0;
    size_ = 0;
  }

  std::size_t size() const noexcept { return size_; }

  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const Entry& entry : entries_)
      if (entry.key != 0) visit(entry.key, entry.value);
  }

 private:
  struct Entry {
    std::uint64_t key = 0;
    Value value{};
  };

  std::size_t Home(std::uint64_t key) const noexcept { return (key * 0x9E3779B97F4A7C15ull) >> shift_; }

  [[gnu::noinline]] void Grow() {
    try {
      Rebuild((mask_ + 1) * 2);
    } catch (const std::bad_alloc&) {
      if (size_ + 2 > mask_) throw;  // a look-up ends at an entry that is unused: one stays
    }
  }

  void Rebuild(std::size_t at_least) {
    std::size_t count = 16;
    int bits = 4;
    while (count < at_least) count *= 2, ++bits;
    std::vector<Entry> old(count);
    old.swap(entries_);
    mask_ = count - 1;
    shift_ = 64 - bits;
    size_ = 0;
    for (const Entry& entry : old)
      if (entry.key != 0) Insert(entry.key, entry.value);
  }

  std::vector<Entry> entries_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
  int shift_ = 60;
};

}  // namespace stalloc::runtime
