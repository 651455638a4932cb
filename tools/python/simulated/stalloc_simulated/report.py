"""What was seen in this process: seeded choices, things that are not simulated, the error that ended it.

Written as JSON to STALLOC_SIMULATED_REPORT (%p stands for the process id) when the program ends, if it used the device.
"""

import atexit
import collections
import json
import os
import sys

choices = collections.Counter()  # operator -> how often a choice stood in for its result
unsimulated = collections.Counter()  # what was met -> how often
steps = 0
_error = None


def note_choice(name):
    choices[name] += 1


def note_unsimulated(name):
    unsimulated[name] += 1


def _call_site(traceback):
    """The last place in the program's own code: not below site-packages, if there is such a place."""
    import traceback as traceback_module

    frames = traceback_module.extract_tb(traceback)
    own = [frame for frame in frames if f"{os.sep}site-packages{os.sep}" not in frame.filename]
    frame = (own or list(frames) or [None])[-1]
    last = frames[-1] if frames else None
    if frame is None:
        return None
    place = {"file": frame.filename, "line": frame.lineno, "function": frame.name, "code": frame.line}
    if last is not frame:
        place["in"] = {"file": last.filename, "line": last.lineno, "function": last.name, "code": last.line}
    return place


def note_error(kind, value, traceback):
    global _error
    torch = sys.modules.get("torch")
    out_of_memory = torch is not None and isinstance(value, getattr(torch, "OutOfMemoryError", ()))
    _error = {
        "type": kind.__name__,
        "message": str(value),
        "out_of_memory": out_of_memory,
        "step": steps,
        "call_site": _call_site(traceback),
    }


def _devices(torch):
    """Peaks of every device on which something was allocated."""
    rows = []
    if not torch.cuda.is_initialized():
        return rows
    for device in range(torch.cuda.device_count()):
        allocated, reserved = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
        if reserved > 0:
            rows.append(
                {
                    "device": device,
                    "name": torch.cuda.get_device_name(device),
                    "peak_allocated_bytes": allocated,
                    "peak_reserved_bytes": reserved,
                    # Requests that were met only after PyTorch had given back its cache.
                    "retries": torch.cuda.memory_stats(device).get("num_alloc_retries", 0),
                    "total_bytes": torch.cuda.get_device_properties(device).total_memory,
                }
            )
    return rows


def collect():
    torch = sys.modules.get("torch")
    return {
        "format": 1,
        "process": os.getpid(),
        "rank": int(os.environ.get("RANK", 0)),
        "world_size": int(os.environ.get("WORLD_SIZE", 1)),
        "command": sys.argv,
        "torch": getattr(torch, "__version__", None),
        "backend": torch.cuda.get_allocator_backend() if torch.cuda.is_initialized() else None,
        "devices": _devices(torch),
        "steps": steps,
        "error": _error,
        "choices": dict(choices),
        "unsimulated": dict(unsimulated),
    }


def _write(path):
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    try:
        with open(path.replace("%p", str(os.getpid())), "w") as file:
            json.dump(collect(), file, indent=1)
            file.write("\n")
    except Exception as failure:  # a program's end is not disturbed
        print(f"stalloc: the report could not be written: {failure}", file=sys.stderr)


def install():
    previous = sys.excepthook

    def hook(kind, value, traceback):
        note_error(kind, value, traceback)
        previous(kind, value, traceback)

    sys.excepthook = hook
    path = os.environ.get("STALLOC_SIMULATED_REPORT")
    if path:
        atexit.register(_write, path)
