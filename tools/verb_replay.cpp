#include "tools/verbs.h"
namespace stalloc::tools {
void AddReplayVerb(CLI::App&, int*) {}
}  // namespace stalloc::tools
