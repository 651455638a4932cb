#include "reentry.h"

namespace stalloc::interpose {

constinit thread_local Nesting nesting = {};

}  // namespace stalloc::interpose
