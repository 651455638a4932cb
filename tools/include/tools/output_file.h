// Files that a verb is to write.
#pragma once

#include <string>

namespace stalloc::tools {

// Before anything is computed: an output that would be lost in the end is refused now. Throws Failure: kUsage if it is
// the input too, kInternal if it exists (and `force` is not set) or cannot be created. An empty path is none.
void CheckOutputFile(const std::string& path, const std::string& input, bool force);

}  // namespace stalloc::tools
