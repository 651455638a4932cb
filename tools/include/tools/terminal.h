// Whether somebody watches, and how wide the terminal is.
#pragma once

#include <cstddef>

namespace stalloc::tools {

// Of standard output: the terminal's width, or that of the variable COLUMNS if it is none; 0: neither says.
std::size_t OutputColumns();

// Whether standard error is a terminal: advice is for people, not for log files.
bool SomebodyWatches();

}  // namespace stalloc::tools
