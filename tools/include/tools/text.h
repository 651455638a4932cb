// How the verbs write figures for people.
#pragma once

#include <cstdint>
#include <string>

namespace stalloc::tools {

// Two decimals in the largest binary unit that fits, as the library's own lines have them, so that what is live and
// what is reserved can be told apart: "512 B", "1.50 KiB", "26.43 GiB".
std::string HumanBytes(std::uint64_t bytes);

// "12,345,678"
std::string Grouped(std::uint64_t number);

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...);

}  // namespace stalloc::tools
