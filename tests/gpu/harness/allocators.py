"""The allocators compared, each as nothing but an environment.

`stalloc1` starts without a kept plan and leaves one behind, `stalloc2` starts from it; both keep their files under a
directory of the harness, so that no plan of the user's cache plays a part.
"""

import argparse
import os

PEERS = ("default", "expandable", "async")
STALLOC = ("stalloc1", "stalloc2")
CONTROL = "default-again"  # default once more, after the others: how far apart two equal runs are
ALL = PEERS + STALLOC + (CONTROL,)

_CONF = {"expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}
_CHOICES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")
_SHIM = ("STALLOC_", "_STALLOC_")  # the user's settings, and what a shimmed parent hands on


def chosen(text):
    """The allocators of a comma-separated list: an argument's type."""
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in ALL]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; allocators: {', '.join(ALL)}")
    return names


def clean_environment():
    """This process's environment without anything that chooses an allocator or sets stalloc."""
    environment = {k: v for k, v in os.environ.items() if k not in _CHOICES and not k.startswith(_SHIM)}
    environment.setdefault("PYTHONUNBUFFERED", "1")
    environment.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return environment


def preload(environment, library):
    """Puts the shim in front of whatever is preloaded already."""
    before = environment.get("LD_PRELOAD")
    environment["LD_PRELOAD"] = os.path.abspath(library) + (":" + before if before else "")
    return environment


def environment_for(allocator, library=None, plan=None, stats=None, extra=None):
    """The environment of a run under `allocator`; `plan` and `stats` are files for the shim, `extra` is set last."""
    environment = clean_environment()
    if allocator in STALLOC:
        preload(environment, library)
        environment["STALLOC_PLAN_CACHE"] = "off"
        if plan:
            environment["STALLOC_PLAN"] = plan
        if stats:
            environment["STALLOC_STATS"] = stats
    elif allocator in _CONF:
        for name in _CHOICES[:2]:
            environment[name] = _CONF[allocator]
    environment.update(extra or {})
    return environment
