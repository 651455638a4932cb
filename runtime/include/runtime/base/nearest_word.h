// The word that was meant by a slip of the hand. Stateless; may allocate.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace stalloc::runtime {

// Of `known`, the word that `written` is turned into by the fewest insertions, deletions and changes of one character;
// nullopt where those are more than three, or more than half of the characters: any short word is near some other.
std::optional<std::string_view> NearestWord(std::string_view written, std::span<const std::string_view> known);

}  // namespace stalloc::runtime
