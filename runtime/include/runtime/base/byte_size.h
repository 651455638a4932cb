// Sizes as people write them: one grammar for every setting and every option of the command. Stateless; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stalloc::runtime {

// What ParseByteSize takes, for help and for errors. The units are those of GNU's tools (numfmt, ls, dd).
inline constexpr const char* kByteSizeGrammar =
    "bytes, or KiB, MiB, GiB, TiB (powers of 1024; K, M, G, T for short), or KB, MB, GB, TB (powers of 1000): 20GiB";

// "20GiB", "1.5 gib", "20G", "20GB", "21474836480": the bytes, at least 1 and less than 2^63; fractions of a byte are
// cut off. nullopt: no such size. Whole numbers are exact; upper and lower case are the same.
std::optional<std::uint64_t> ParseByteSize(std::string_view text) noexcept;

}  // namespace stalloc::runtime
