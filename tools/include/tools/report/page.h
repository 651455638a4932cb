// The page of `stalloc report`: the sources under tools/report, embedded when this command was built, and the data.
#pragma once

#include <string>

#include "tools/report/data.h"

namespace stalloc::tools::report {

// Failure(kInternal) if this command was built without D3.
void CheckPage();

// The whole HTML file. It opens from a disk and loads nothing.
std::string Page(const Data& data);

}  // namespace stalloc::tools::report
