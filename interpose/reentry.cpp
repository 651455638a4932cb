#include "reentry.h"

namespace stalloc::interpose {

constinit thread_local int nesting_depth = 0;

}  // namespace stalloc::interpose
