// How the runtime writes figures for people: in the summary line and in reports. Allocates.
#pragma once

#include <cstdint>
#include <string>

namespace stalloc::runtime {

// In the largest binary unit that fits, with two decimals: "512 B", "1.50 KiB", "26.42 GiB".
std::string SizeText(std::uint64_t bytes);

// "97.1 %", rounded down: "100 %" means all of them. `whole` is not 0.
std::string ShareText(std::uint64_t part, std::uint64_t whole);

}  // namespace stalloc::runtime
