// Files that were asked for (STALLOC_STATS, STALLOC_TRACE, STALLOC_PLAN) in a run that was never served: a user who
// waits for one is told that none will come.
//
// A launcher's children inherit what was asked for, and so do a shell's: the line is the affair of the process that the
// user has started, and of none that it starts, and stands only where none of them has written the file.
#pragma once

#include "runtime/base/settings.h"

namespace stalloc::runtime {

// Before main, from the thread that loads the program: notes in the environment that the files are this process's
// affair, unless they are a living ancestor's. Throws std::bad_alloc.
void NoteAskedFiles(const Settings& settings);

// At the end of a process that was not served: one line that names the files asked for that nobody has written since
// NoteAskedFiles; nothing if there are none, if another of them was written, for then the run was served, or if they
// are another process's affair.
void SayWhichFilesAreMissing(const Settings& settings) noexcept;

}  // namespace stalloc::runtime
