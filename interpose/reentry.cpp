#include "reentry.h"

namespace stalloc::interpose {

thread_local int nesting_depth = 0;

}  // namespace stalloc::interpose
