#include "tools/pickle_reader.h"

#include <bit>
#include <cstring>
#include <optional>

#include "tools/failure.h"
#include "tools/text.h"

namespace stalloc::tools {
namespace {

using Kind = PickleValue::Kind;

// The opcodes that plain data needs, as Python's pickletools names them.
enum Opcode : unsigned char {
  kMark = '(',
  kStop = '.',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kBinFloat = 'G',
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kBinGet = 'h',
  kLongBinGet = 'j',
  kProto = 0x80,
  kFrame = 0x95,
};

class Machine {
 public:
  Machine(const std::string& path, std::span<const std::byte> bytes, std::vector<PickleValue>* values)
      : path_(path), bytes_(bytes), values_(values) {}

  std::uint32_t Run() {
    for (;;) {
      opcode_at_ = at_;
      const auto opcode = static_cast<unsigned char>(Number(1));
      if (opcode == kStop) return Pop();
      Do(opcode);
    }
  }

 private:
  [[noreturn]] void Refuse(const std::string& reason) const {
    throw Failure(ExitCode::kBadInput, Format("%s: byte %zu: %s", path_.c_str(), opcode_at_, reason.c_str()));
  }

  std::string_view Take(std::uint64_t count) {
    if (count > bytes_.size() - at_) Refuse("truncated: the file ends within a value");
    const std::string_view taken(reinterpret_cast<const char*>(bytes_.data()) + at_, count);
    at_ += count;
    return taken;
  }

  std::uint64_t Number(std::size_t size) {
    const std::string_view bytes = Take(size);
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < size; ++i) number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return number;
  }

  void Push(PickleValue value) {
    values_->push_back(std::move(value));
    stack_.push_back(static_cast<std::uint32_t>(values_->size() - 1));
  }
  void PushInteger(std::int64_t integer) { Push({.kind = Kind::kInteger, .integer = integer}); }
  void PushText(std::uint64_t size) { Push({.kind = Kind::kText, .text = Take(size)}); }

  std::size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::uint32_t Pop() {
    if (stack_.size() <= Floor()) Refuse("the stack is empty: damaged");
    const std::uint32_t value = stack_.back();
    stack_.pop_back();
    return value;
  }
  // What has been pushed since the last mark.
  std::vector<std::uint32_t> PopToMark() {
    if (marks_.empty()) Refuse("there is no mark: damaged");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<std::uint32_t> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }
  PickleValue& Top(Kind kind) {
    if (stack_.size() <= Floor() || (*values_)[stack_.back()].kind != kind) Refuse("no container to add to: damaged");
    return (*values_)[stack_.back()];
  }

  void PushTuple(std::size_t count) {
    PickleValue tuple{.kind = Kind::kList};
    tuple.items.resize(count);
    for (std::size_t i = count; i > 0; --i) tuple.items[i - 1] = Pop();
    Push(std::move(tuple));
  }

  void SetItems(const std::vector<std::uint32_t>& items) {
    PickleValue& dictionary = Top(Kind::kDictionary);
    if (items.size() % 2 != 0) Refuse("a key without a value: damaged");
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const PickleValue& key = (*values_)[items[i]];
      if (key.kind == Kind::kText) dictionary.members.emplace_back(key.text, items[i + 1]);
    }
  }

  void Memoize(std::uint64_t key) {
    if (stack_.size() <= Floor()) Refuse("the stack is empty: damaged");
    if (key > memo_.size() + bytes_.size()) Refuse("a memo of " + std::to_string(key) + " entries: damaged");
    if (key >= memo_.size()) memo_.resize(key + 1);
    memo_[key] = stack_.back();
  }
  void Recall(std::uint64_t key) {
    if (key >= memo_.size() || !memo_[key]) Refuse("names what it has not defined: damaged");
    stack_.push_back(*memo_[key]);
  }

  void PushLong() {
    const std::uint64_t size = Number(1);
    if (size > 9) Refuse("an integer beyond 64 bits");
    const std::string_view bytes = Take(size);
    if (size == 9 && bytes[8] != 0) Refuse("an integer beyond 64 bits");
    std::uint64_t number = size > 0 && size < 8 && (bytes[size - 1] & 0x80) != 0 ? ~std::uint64_t{0} << (8 * size) : 0;
    for (std::size_t i = 0; i < size && i < 8; ++i)
      number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    PushInteger(static_cast<std::int64_t>(number));
  }

  void PushFloat() {
    std::uint64_t number = 0;
    for (const char c : Take(8)) number = number << 8 | static_cast<unsigned char>(c);
    Push({.kind = Kind::kFloat, .number = std::bit_cast<double>(number)});
  }

  void Do(unsigned char opcode) {
    switch (opcode) {
      case kProto:
        if (const std::uint64_t version = Number(1); version < 2 || version > 5)
          Refuse("pickle protocol " + std::to_string(version) + "; 2 to 5 are known");
        return;
      case kFrame:
        Take(8);
        return;
      case kMark:
        marks_.push_back(stack_.size());
        return;
      case kNone:
        return Push({});
      case kNewTrue:
      case kNewFalse:
        return Push({.kind = Kind::kBool, .integer = opcode == kNewTrue});
      case kBinInt:
        return PushInteger(static_cast<std::int32_t>(Number(4)));
      case kBinInt1:
        return PushInteger(static_cast<std::int64_t>(Number(1)));
      case kBinInt2:
        return PushInteger(static_cast<std::int64_t>(Number(2)));
      case kLong1:
        return PushLong();
      case kBinFloat:
        return PushFloat();
      case kShortBinUnicode:
        return PushText(Number(1));
      case kBinUnicode:
        return PushText(Number(4));
      case kBinUnicode8:
        return PushText(Number(8));
      case kEmptyList:
      case kEmptyTuple:
        return Push({.kind = Kind::kList});
      case kEmptyDict:
        return Push({.kind = Kind::kDictionary});
      case kAppend: {
        const std::uint32_t item = Pop();
        Top(Kind::kList).items.push_back(item);
        return;
      }
      case kAppends: {
        const std::vector<std::uint32_t> items = PopToMark();
        std::vector<std::uint32_t>& list = Top(Kind::kList).items;
        list.insert(list.end(), items.begin(), items.end());
        return;
      }
      case kTuple: {
        PickleValue tuple{.kind = Kind::kList};
        tuple.items = PopToMark();
        return Push(std::move(tuple));
      }
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return PushTuple(std::size_t{opcode} - kTuple1 + 1);
      case kSetItem: {
        const std::uint32_t value = Pop();
        const std::uint32_t key = Pop();
        return SetItems({key, value});
      }
      case kSetItems:
        return SetItems(PopToMark());
      case kMemoize:
        return Memoize(memo_.size());
      case kBinPut:
        return Memoize(Number(1));
      case kLongBinPut:
        return Memoize(Number(4));
      case kBinGet:
        return Recall(Number(1));
      case kLongBinGet:
        return Recall(Number(4));
      default:
        Refuse(Format("opcode 0x%02x: this is no plain data, and nothing in a pickle is run", opcode));
    }
  }

  const std::string& path_;
  const std::span<const std::byte> bytes_;
  std::vector<PickleValue>* const values_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;
  std::vector<std::optional<std::uint32_t>> memo_;
};

}  // namespace

Pickle::Pickle(const std::string& path, std::span<const std::byte> bytes)
    : root_(Machine(path, bytes, &values_).Run()) {}

const PickleValue* Pickle::Member(const PickleValue& of, std::string_view name) const {
  const PickleValue* found = nullptr;
  for (const auto& [key, value] : of.members)
    if (key == name) found = &values_[value];  // the last one, as in Python
  return found;
}

}  // namespace stalloc::tools
