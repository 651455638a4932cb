"""History and snapshots in PyTorch's format: events with Python's stacks, and blocks that add up to the statistics."""
import threading

import torch

c = torch._C


def make(size):
    return c.allocate(size)


before = make(3000)
c._cuda_record_memory_history("all", "all", "all", 6, False)
assert c._cuda_isHistoryEnabled()
kept = make(2 << 20)
c.free(make(1 << 20))
snapshot = c._cuda_memorySnapshot(None)
assert [event["action"] for event in snapshot["device_traces"][0]] == ["alloc", "alloc", "free_requested", "free_completed"]
first = snapshot["device_traces"][0][0]
assert (first["addr"], first["size"]) == (kept, 2 << 20), first
names = [frame["name"] for frame in first["frames"]]
assert names[-2:] == ["make", "<module>"], names
source = open(__file__).read().splitlines()
texts = [source[frame["line"] - 1].strip() for frame in first["frames"][-2:]]
assert texts == ["return c.allocate(size)", "kept = make(2 << 20)"], texts
assert first["frames"][-1]["filename"] == __file__
blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
live = {block["address"]: block for block in blocks if block["state"] == "active_allocated"}
assert set(live) == {before, kept} and live[before]["requested_size"] == 3000 and live[before]["frames"] == []
assert [frame["name"] for frame in live[kept]["frames"]][-2:] == ["make", "<module>"]
stats = c._cuda_memoryStats(0)
assert sum(segment["total_size"] for segment in snapshot["segments"]) == stats["reserved_bytes"]["all"]["current"]
assert sum(block["size"] for block in blocks) == stats["reserved_bytes"]["all"]["current"]
assert sum(segment["allocated_size"] for segment in snapshot["segments"]) == stats["allocated_bytes"]["all"]["current"]
for segment in snapshot["segments"]:
    at = segment["address"]
    for block in segment["blocks"]:
        assert block["address"] == at
        at += block["size"]
    assert at == segment["address"] + segment["total_size"]


# In a thread of its own, which has its own stack; the oldest events go.
def work():
    for _ in range(5):
        c.free(make(1 << 20))


thread = threading.Thread(target=work)
thread.start()
thread.join()
events = c._cuda_memorySnapshot(None)["device_traces"][0]
assert len(events) == 9, len(events)  # six, of which three are frees
assert "work" in [frame["name"] for frame in events[-1]["frames"]], events[-1]
assert c._cuda_memorySnapshot((0, 0, False))["device_traces"] == [[]]
c._cuda_record_memory_history(None, None, "all", 1, True)
assert not c._cuda_isHistoryEnabled()
c.free(make(1 << 20))
assert c._cuda_memorySnapshot(None)["device_traces"] == [[]]
print("ok")
