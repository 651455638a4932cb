"""memory_stats tells what was asked for, by size and altogether; its accumulated figures can be reset."""
import torch

c = torch._C
small, large = c.allocate(1000), c.allocate(5 << 20)
c.free(large)
stats = c._cuda_memoryStats(0)
assert stats["allocation"]["all"] == {"current": 1, "peak": 2, "allocated": 2, "freed": 1}, stats["allocation"]
assert stats["allocation"]["large_pool"] == {"current": 0, "peak": 1, "allocated": 1, "freed": 1}, stats["allocation"]
assert stats["requested_bytes"]["small_pool"]["current"] == 1000, stats["requested_bytes"]
assert stats["allocated_bytes"]["small_pool"]["current"] == 1024, stats["allocated_bytes"]
assert stats["reserved_bytes"]["all"]["current"] >= 1024 and stats["reserved_bytes"]["all"]["current"] % (2 << 20) == 0
assert stats["segment"]["all"]["current"] == stats["reserved_bytes"]["all"]["current"] >> 21
c._cuda_resetAccumulatedMemoryStats(0)
c.free(small)
stats = c._cuda_memoryStats(0)
assert stats["allocation"]["all"] == {"current": 0, "peak": 2, "allocated": 0, "freed": 1}, stats["allocation"]
c._accelerator_setAllocatorSettings("expandable_segments:True")
c._accelerator_setAllocatorSettings("backend:native,pinned_use_background_threads:True,roundup_power2_divisions:[256:1,2:1]")
assert c.settings == ["pinned_use_background_threads:True"], c.settings
print("ok")
