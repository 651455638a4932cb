// HandleTable: gives objects opaque handles and finds them again. A handle of a destroyed object is not found, until it
// is handed out anew: the last one returned comes first, as with the driver, so that whoever keys by a stale handle is
// found out. Called under the machine's lock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace stalloc::simcuda {

template <typename Object, typename Handle>
class HandleTable {
 public:
  // Handles lie apart from those of other tables, so that one type's handle is never found as another's.
  explicit HandleTable(std::uint64_t first_handle) : first_handle_(first_handle) {}

  Handle Add(std::shared_ptr<Object> object) {
    std::size_t slot = objects_.size();
    if (!unused_.empty()) {
      slot = unused_.back();
      unused_.pop_back();
      objects_[slot] = std::move(object);
    } else {
      objects_.push_back(std::move(object));
    }
    return reinterpret_cast<Handle>(first_handle_ + slot * kStride);
  }

  std::shared_ptr<Object> Find(Handle handle) const {
    const std::size_t slot = Slot(handle);
    return slot < objects_.size() ? objects_[slot] : nullptr;
  }

  std::shared_ptr<Object> Remove(Handle handle) {
    const std::size_t slot = Slot(handle);
    if (slot >= objects_.size() || objects_[slot] == nullptr) return nullptr;
    unused_.push_back(slot);
    return std::move(objects_[slot]);
  }

  void Clear() {
    objects_.clear();
    unused_.clear();
  }

  template <typename Visitor>
  void ForEach(Visitor visit) const {
    for (const std::shared_ptr<Object>& object : objects_) {
      if (object != nullptr) visit(*object);
    }
  }

 private:
  static constexpr std::uint64_t kStride = 64;

  std::size_t Slot(Handle handle) const {
    const std::uint64_t distance = reinterpret_cast<std::uint64_t>(handle) - first_handle_;
    return distance % kStride == 0 ? distance / kStride : ~std::size_t{0};
  }

  const std::uint64_t first_handle_;
  std::vector<std::shared_ptr<Object>> objects_;
  std::vector<std::size_t> unused_;
};

}  // namespace stalloc::simcuda
