// The address of every entry point, in the order of entry_points.def, as EntryPoint and kEntryPointInfo have it.
#pragma once

namespace stalloc::simcuda {

extern void (*const kFunctionPointers[])();

}  // namespace stalloc::simcuda
