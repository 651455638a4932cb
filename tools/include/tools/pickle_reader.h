// Reads the values of a Python pickle: numbers, texts, lists, tuples, dictionaries. Nothing is run: a pickle that wants
// to import or to call something is refused. Any thread; may allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stalloc::tools {

// Values may be shared, as in the pickle; they live as long as the Pickle that they are of.
struct PickleValue {
  enum class Kind : std::uint8_t { kNone, kBool, kInteger, kFloat, kText, kList, kDictionary };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  // kBool too
  double number = 0;
  std::string_view text{};                                            // in the bytes that were read
  std::vector<std::uint32_t> items{};                                 // kList (tuples too): indices of values
  std::vector<std::pair<std::string_view, std::uint32_t>> members{};  // kDictionary, those with a text for a key
};

class Pickle {
 public:
  // Protocols 2 to 5. `bytes` outlive this. Throws Failure(kBadInput), which names `path`, the byte and the reason.
  Pickle(const std::string& path, std::span<const std::byte> bytes);

  const PickleValue& root() const { return values_[root_]; }
  const PickleValue& operator[](std::uint32_t index) const { return values_[index]; }

  // The member of a dictionary; nullptr: there is none, or `of` is no dictionary.
  const PickleValue* Member(const PickleValue& of, std::string_view name) const;

 private:
  std::vector<PickleValue> values_;
  std::uint32_t root_ = 0;
};

}  // namespace stalloc::tools
