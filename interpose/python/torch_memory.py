"""PyTorch's statistics, history and snapshots on the cudaMallocAsync backend, from libstalloc's own record.

torch._C's functions are replaced, so that everything in Python that is made of them works in every version.
"""
import ctypes
import json
import sys

_STACKS = {None: 0, "state": 1, "alloc": 2, "all": 3}
_history = {"enabled": None}
_observers = []


def _text(device, with_events):
    pointer = library().stalloc_history_text(device, with_events)
    try:
        return json.loads(ctypes.string_at(pointer))
    finally:
        library().stalloc_free_text(pointer)


def _record(enabled="all", context="all", stacks="all", max_entries=sys.maxsize, clear_history=False, *others):
    if enabled not in (None, "state", "all"):
        raise RuntimeError(f"expected state, all or None for enabled, got: {enabled}")
    if context not in _STACKS:
        raise RuntimeError(f"expected state, alloc, all or None for context, got: {context}")
    library().stalloc_history_stop()
    if clear_history:
        library().stalloc_history_clear()
    _history["enabled"] = enabled
    if enabled is None:
        return
    if context is not None and not library().stalloc_learn_frames():
        say("the memory history has no call stacks: this Python's frames cannot be read")
    library().stalloc_history_start(enabled == "all", _STACKS[context], min(max_entries, sys.maxsize))


def _record_legacy(enabled, record_context=True, most=1, record_allocations=False, *others):
    context = ("all" if record_allocations else "state") if record_context else None
    _record("all" if enabled else None, context, "python", most)


def _event(of, stacks):
    action, address, size, stream, stack, time = of
    common = {"size": size, "stream": stream, "time_us": time, "compile_context": "N/A", "user_metadata": ""}
    common["frames"] = stacks[stack]
    if action == 2:
        return [{"action": "oom", "device_free": address, **common}]
    names = ("alloc",) if action == 0 else ("free_requested", "free_completed")
    return [{"action": name, "addr": address, **common} for name in names]


def _segment(device, of, stacks):
    address, total, live = of
    blocks, at = [], address
    used = requested = 0

    def idle(end):
        if end > at:
            blocks.append({"address": at, "size": end - at, "requested_size": 0, "state": "inactive", "frames": []})

    for begin, size, asked, stream, stack, time in live:
        idle(begin)
        blocks.append({"address": begin, "size": size, "requested_size": asked, "state": "active_allocated",
                       "frames": stacks[stack]})  # fmt: skip
        at, used, requested = begin + size, used + size, requested + asked
    idle(address + total)
    return {"device": device, "address": address, "total_size": total, "stream": 0, "segment_type": "large",
            "allocated_size": used, "active_size": used, "requested_size": requested, "segment_pool_id": (0, 0),
            "is_expandable": True, "frames": [], "blocks": blocks}  # fmt: skip


def _snapshot(torch):
    def snapshot(which=None):
        result = {"segments": [], "device_traces": [], "external_annotations": [],
                  "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}}  # fmt: skip
        of_pool = which is not None and tuple(which[:2]) != (0, 0)
        for device in range(torch.cuda.device_count()):
            events = not (which is not None and len(which) > 2 and not which[2])
            read = _text(device, events)
            frames = [{"filename": file, "line": line, "name": name} for file, line, name in read["frames"]]
            stacks = [[frames[number] for number in stack] for stack in read["stacks"]] or [[]]
            if not of_pool:
                result["segments"] += [_segment(device, segment, stacks) for segment in read["segments"]]
            result["device_traces"].append([entry for of in read["events"] for entry in _event(of, stacks)])
        return result

    return snapshot


class _Statistics:
    """memory_stats with what libstalloc knows and the backend does not count."""

    def __init__(self, statistics):
        self.statistics = statistics
        self.since = {}  # by device: the totals at the last reset of the accumulated ones

    def figures(self, device):
        numbers = (ctypes.c_uint64 * len(_FIGURES))()
        library().stalloc_figures(device, numbers, len(_FIGURES))
        now = dict(zip(_FIGURES, numbers))
        now["reserved.total"] = now["reserved.now"] + now["reserved.freed"]
        for part in ("now", "high", "total", "freed"):
            now["pages." + part] = now["reserved." + part] // _PAGE
        for total in [name for name in now if name.endswith(".total")]:
            now.setdefault(total[:-5] + "freed", now[total] - now[total[:-5] + "now"])
        return now

    def __call__(self, device):
        stats = self.statistics(device)
        now = self.figures(device)
        if not now["all.blocks.total"]:  # nothing is served
            return stats
        since = self.since.get(device, {})

        def put(key, of, figure):
            if of in stats.get(key, ()):
                total, freed = (now[f"{figure}.{part}"] - since.get(f"{figure}.{part}", 0) for part in ("total", "freed"))
                stats[key][of].update(
                    current=now[figure + ".now"], peak=now[figure + ".high"], allocated=total, freed=freed
                )

        for of, size in (("small_pool", "small"), ("large_pool", "large"), ("all", "all")):
            put("allocation", of, size + ".blocks")
            put("active", of, size + ".blocks")
            put("allocated_bytes", of, size + ".used")
            put("active_bytes", of, size + ".used")
            put("requested_bytes", of, size + ".requested")
        for of in ("all", "large_pool"):
            put("reserved_bytes", of, "reserved")
            put("segment", of, "pages")
        for key in ("num_ooms", "num_device_alloc", "num_device_free"):
            if key in stats:
                stats[key] = now[key] - since.get(key, 0)
        return stats

    def reset_accumulated(self, device):
        self.since[device] = self.figures(device)


# As stalloc_figures gives them.
_FIGURES = [
    f"{size}.{what}.{part}"
    for size in ("small", "large", "all")
    for what in ("blocks", "used", "requested")
    for part in ("now", "high", "total")
]
_FIGURES += ["reserved.now", "reserved.high", "reserved.freed", "num_ooms", "num_device_alloc", "num_device_free"]
_PAGE = 2 << 20


def _observe_out_of_memory(torch):
    """Observers are called when the error reaches Python: inside the request the backend's own lock is held."""
    error = getattr(torch, "OutOfMemoryError", None) or torch._C._OutOfMemoryError
    made = error.__init__

    def init(self, *args):
        made(self, *args)
        for observer in list(_observers):
            device = torch.cuda.current_device()
            free, total = torch.cuda.mem_get_info(device)
            try:
                observer(device, 0, torch.cuda.memory_reserved(device), free)
            except Exception as failure:
                say(f"an observer of out of memory failed: {failure}")

    def attach(observer):
        if not _observers:
            error.__init__ = init
        _observers.append(observer)

    return attach


def install(torch):
    c = torch._C
    statistics = _Statistics(c._cuda_memoryStats)
    replace(c, "_cuda_record_memory_history", lambda old: _record)
    replace(c, "_cuda_record_memory_history_legacy", lambda old: _record_legacy)
    replace(c, "_cuda_isHistoryEnabled", lambda old: lambda: _history["enabled"] is not None)
    replace(c, "_cuda_memorySnapshot", lambda old: _snapshot(torch))
    replace(c, "_cuda_memoryStats", lambda old: lambda device: statistics(device))
    replace(c, "_cuda_resetAccumulatedMemoryStats", lambda old: lambda device: statistics.reset_accumulated(device))
    replace(c, "_cuda_attach_out_of_memory_observer", lambda old: _observe_out_of_memory(torch))
