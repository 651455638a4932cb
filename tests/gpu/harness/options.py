"""What the harnesses that run a workload under several allocators have in common: options, settings, records."""

import json
import os
import sys
import time

from . import allocators, device


def add(parser, out, names=allocators.ALL, steps=40, warmup=8, timeout=120, of="one run"):
    """The options that each of them has, with its defaults; `names` are the allocators, the time limit is `of` what."""
    parser.add_argument("--allocators", type=allocators.chosen, default=",".join(names))
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--warmup", type=int, default=warmup)
    parser.add_argument("--lib", help="libstalloc.so; needed for stalloc1 and stalloc2")
    parser.add_argument("--out", default=out)
    parser.add_argument("--timeout", type=float, default=timeout, metavar="SECONDS", help=f"of {of}")
    parser.add_argument("--time-budget", type=float, default=560, metavar="SECONDS", help="start nothing past this")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for the stalloc runs")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: dry run of the harness")
    parser.add_argument("--tiny", action="store_true")


def settings(arguments, allocator):
    """What --env says of a run under `allocator`."""
    return dict(pair.split("=", 1) for pair in arguments.env) if allocator in allocators.STALLOC else {}


def lacks_library(arguments):
    """Why the chosen allocators cannot be run; None if they can."""
    if not any(name in allocators.STALLOC for name in arguments.allocators) or os.path.exists(arguments.lib or ""):
        return None
    return "--lib must name libstalloc.so for the stalloc runs"


def about(program):
    """What a results.json says of the call that makes it."""
    command = f"python3 tests/gpu/{program} " + " ".join(sys.argv[1:])
    return {"command": command, "machine": device.describe(), "date": time.strftime("%Y-%m-%d", time.gmtime())}


def contents(paths):
    """What earlier calls have left in their results.json."""
    found = []
    for path in paths:
        with open(path) as file:
            found.append(json.load(file))
    return found


def all_good(results):
    """Whether every run finished, with the default's bits."""
    return all(r["exit"] == 0 and r["compared"].get("same_bits", True) for r in results)


def record(path):
    """What a workload has written, or None: it ended before that."""
    try:
        with open(path) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def state(code):
    """How a run ended, in a word."""
    return "ok" if code == 0 else "TIMED OUT" if code is None else f"EXIT {code}"
