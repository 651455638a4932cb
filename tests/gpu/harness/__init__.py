"""What the GPU harnesses share: the device seen from outside, the allocators compared, child processes, tables."""
