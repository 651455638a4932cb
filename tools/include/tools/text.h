// How the verbs write figures for people.
#pragma once

#include <cstdint>
#include <string>

namespace stalloc::tools {

// Three significant digits in the largest binary unit that fits: "512 B", "1.50 KiB", "26.4 GiB".
std::string HumanBytes(std::uint64_t bytes);

// "12,345,678"
std::string Grouped(std::uint64_t number);

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...);

}  // namespace stalloc::tools
