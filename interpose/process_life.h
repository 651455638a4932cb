// The process: whether the shim is on, when the allocator starts, and how it ends.
//
// Any thread. Nothing here holds a lock: a thread that finds another one starting the allocator goes to the driver
// meanwhile, which is always right, instead of waiting for it, which could wait for ever.
#pragma once

namespace stalloc::interpose {

// False if STALLOC_DISABLE is set: then every hook forwards and nothing else happens. Callable before constructors.
bool Enabled() noexcept;

// True if requests are to be taken to the allocator. The first call starts it; from then on this is one load.
bool Serving() noexcept;

// The same, but never starts it: for the hooks that have something to say only if it has started.
bool ServingAlready() noexcept;

// True until the first call of Serving has been decided.
bool ServingUndecided() noexcept;

}  // namespace stalloc::interpose
