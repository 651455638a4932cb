#!/usr/bin/env python3
"""What a step takes under each allocator, beside default's of the same moment: the processes of a workload are all
resident on the GPU and do their steps by turns, one step each, in an order that moves on by one process a step.

run.py measures memory, and so has to have the device to itself for a run; a machine with neighbours is not the same
machine a minute later. Here a step and the default's step of the same number lie a fraction of a second apart, and do
the same work. The figures are read as run.py's are: the ratio is the median over the steps after the warm-up, and the
noise is how far default-again is from default, or half of the ratio's own 95 % interval, whichever is more.

What a process takes also differs from the next one's of the same program, by more than its steps differ among
themselves: in part by the cores it came to lie on, some of which share theirs with a neighbour. All are therefore bound
to the same few (--cores), and --repeat does it all again with new processes.

stalloc2 needs the kept plan of a first run, which is made before the first round, on its own. All processes of a
workload must fit onto the device together, so that --allocators may have to be fewer there than in run.py. Writes
results.json, tables.md and logs.txt into --out, anew after every workload.

Exit code 0: every run finished with the default's bits; 1: not; 77: no GPU or no PyTorch here.
"""

import argparse
import itertools
import json
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import run
from harness import allocators, device, options, report, shim, table
from harness.child import Child, tail
from harness.compare import compare_all, merge, summaries
from harness.turns import Stopped, take_turns

NAMES = ("default", "stalloc1", "stalloc2", allocators.CONTROL)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workloads", type=run.chosen, default="all", help="as for run.py")
    options.add(parser, "gpu-step-times", NAMES, of="one turn, and of what precedes")
    parser.add_argument("--repeat", type=int, default=1, metavar="ROUNDS", help="each with processes of its own")
    parser.add_argument("--cores", type=int, default=4, help="how many to bind all processes to; 0: leave them alone")
    parser.add_argument("--merge", nargs="+", metavar="FILE", default=[], help="results.json of calls before this one")
    return parser.parse_args()


def bind(cores):
    """Binds this process, and with it those that it starts, to the last `cores` of the cores it may use.

    The last, because interrupts mostly go to the first.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])


class Bench:
    def __init__(self, arguments, directory):
        self.arguments, self.directory = arguments, directory
        self.results, self.logs = [], []

    def _path(self, workload, repeat, allocator, kind):
        return os.path.join(self.directory, f"{workload}.{repeat}.{allocator}.{kind}")

    def _start(self, workload, repeat, allocator, turns, plan):
        arguments = self.arguments
        command = [*run.program(workload), "--gate"]
        command += ["--steps", str(arguments.steps), "--warmup", str(arguments.warmup), "--device", arguments.device]
        command += ["--out", self._path(workload, repeat, allocator, "record.json")] + ["--tiny"] * arguments.tiny
        extra = options.settings(arguments, allocator)
        figures = self._path(workload, repeat, allocator, "stats.json")
        environment = allocators.environment_for(allocator, arguments.lib, plan, figures, extra)
        name = f"{workload}.{repeat}.{allocator}"
        return Child(command, environment, self.directory, name, gated=True, turns=turns)

    def _make_plan(self, workload, plan):
        """A first run, alone and not measured, that leaves its plan."""
        child = self._start(workload, "before", "stalloc1", False, plan)
        child.release() if child.wait_until_ready(self.arguments.timeout) else child.kill()
        return child.wait(self.arguments.timeout)[0]

    def measure(self, workload, repeat):
        arguments, kept = self.arguments, self._path(workload, "before", "kept", "plan")
        if "stalloc2" in arguments.allocators and repeat == 0 and self._make_plan(workload, kept) != 0:
            print(f"{workload}: no first run to make a plan in", flush=True)
        plans = {name: self._path(workload, repeat, name, "plan") for name in allocators.STALLOC}
        if os.path.exists(kept):
            shutil.copy(kept, plans["stalloc2"])  # each round starts from it, and may keep another
        children = {}
        for name in arguments.allocators:
            children[name] = self._start(workload, repeat, name, True, plans.get(name))
        for child in children.values():
            child.wait_until_ready(arguments.timeout)
            child.release()
        try:
            take_turns(list(children.values()), arguments.steps, arguments.timeout)
        except Stopped as stopped:
            print(f"{stopped} stopped in its turn", flush=True)
        for name, child in children.items():
            child.give_turn()
            self._read(workload, repeat, name, child)

    def _read(self, workload, repeat, name, child):
        code, seconds = child.wait(self.arguments.timeout)
        result = {"workload": workload, "allocator": name, "repeat": repeat, "exit": code, "seconds": seconds}
        result["outside_peak_bytes"] = None  # the device's use is that of all of them
        result["record"] = options.record(self._path(workload, repeat, name, "record.json"))
        if name in allocators.STALLOC:
            result["shim"] = shim.figures_of(child.stderr(), self._path(workload, repeat, name, "stats.json"))
        self.results.append(result)
        self.logs.append(f"=== {child.name}: exit {code}\n{tail(child.stdout(), 4)}\n{tail(child.stderr())}")
        median = (result["record"] or {}).get("median_step_ms")
        print(f"{child.name:32} exit {code}  step {table.number(median, 2)} ms", flush=True)


def save(arguments, about, bench, earlier):
    """Writes what there is, beside the `earlier` calls' results; returns the text of the tables."""
    content = {**about, "left_out": [], "results": merge([*earlier, bench.results])}
    compare_all(content["results"])
    run.write(os.path.join(arguments.out, "results.json"), json.dumps(content))
    run.write(os.path.join(arguments.out, "logs.txt"), "\n\n".join(bench.logs))
    found = summaries(content["results"])
    bits = "; ".join(
        f"{w} under {n}: {s['bits']}" for w, m in found.items() for n, s in m.items() if s["bits"] != "same"
    )
    text = f"`{about['command']}`\n\n{about['machine']}, {about['date']}.\n\n"
    text += table.markdown_table(*report.step_times(found)) + "\n\n" + table.markdown_table(*report.planning(found))
    text += "\n\n" + table.markdown_table(*report.time_by_cause(found))
    text += f"\n\nBits that are not default's: {bits or 'none'}.\n"
    run.write(os.path.join(arguments.out, "tables.md"), text)
    return text


def main():
    arguments = parse()
    reason = device.why_not(modules=("torch",)) if arguments.device == "cuda" else None
    if reason:
        print(f"skipped: {reason}")
        return device.SKIPPED
    if reason := options.lacks_library(arguments):
        print(reason, file=sys.stderr)
        return 2
    if arguments.cores:
        bind(arguments.cores)
    os.makedirs(arguments.out, exist_ok=True)
    about = options.about("step_times.py")
    earlier = [content["results"] for content in options.contents(arguments.merge)]
    started, longest, left_out, text = time.monotonic(), {}, [], ""
    with tempfile.TemporaryDirectory(prefix="stalloc-gpu-") as directory:
        bench = Bench(arguments, directory)
        for repeat, workload in itertools.product(range(arguments.repeat), arguments.workloads):
            begun = time.monotonic()
            if begun - started + 1.2 * longest.get(workload, max(longest.values(), default=0)) > arguments.time_budget:
                left_out.append(f"{workload}, round {repeat + 1}")
                continue
            bench.measure(workload, repeat)
            longest[workload] = max(longest.get(workload, 0), time.monotonic() - begun)
            text = save(arguments, about, bench, earlier)
    print(text)
    if left_out:
        print(f"Left out for time: {'; '.join(left_out)}.")
    return 0 if options.all_good(bench.results) and not left_out else 1


if __name__ == "__main__":
    sys.exit(main())
