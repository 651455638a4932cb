#!/usr/bin/env python3
"""What held memory buys: under one fixed budget, the largest batch that trains under each allocator, and its throughput.

A ballast process leaves the budget free on the device; then each workload is trained for a few steps at growing batch
sizes. The default allocator's largest batch is found by bisection, the others climb (or descend) from there by --grain.
"Trains" means that all steps finish. Writes results.json and tables.md into --out. Exit code 77: no GPU, no PyTorch.
"""

import argparse
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import allocators, child, device, table
from harness.ballast import Ballast

HERE = os.path.dirname(os.path.abspath(__file__))
HEADER = ["workload", "allocator", "largest batch", "step ms", "samples/s", "against default", "peak live GiB", "note"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workloads", default="gpt2:4:24,eval_mix:2:12,resnet50:64:320", help="NAME:LOW:HIGH,...")
    parser.add_argument("--allocators", default="default,expandable,async,stalloc1")
    parser.add_argument("--budget-gib", type=float, default=24.0)
    parser.add_argument("--grain", type=int, default=0, help="batch sizes are multiples of this; 0: a 32nd of HIGH")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lib", help="libstalloc.so")
    parser.add_argument("--out", default="gpu-max-batch")
    parser.add_argument("--timeout", type=float, default=90, metavar="SECONDS", help="of one run")
    parser.add_argument("--time-budget", type=float, default=560, metavar="SECONDS")
    return parser.parse_args()


class Search:
    def __init__(self, arguments, directory):
        self.arguments, self.directory = arguments, directory
        self.started, self.tried = time.monotonic(), {}

    def out_of_time(self):
        return time.monotonic() - self.started > self.arguments.time_budget - 30

    def trains(self, workload, allocator, batch):
        """The record of a run that finished, or None."""
        key = (workload, allocator, batch)
        if key not in self.tried:
            name = f"{workload}.{allocator}.{batch}"
            out = os.path.join(self.directory, name + ".json")
            command = [sys.executable, os.path.join(HERE, "scripts", f"{workload}.py"), "--batch", str(batch)]
            command += ["--steps", str(self.arguments.steps), "--warmup", str(self.arguments.steps // 2), "--out", out]
            environment = allocators.environment_for(allocator, self.arguments.lib)
            process, code, seconds = child.run(command, environment, self.directory, name, self.arguments.timeout)
            record = None
            if code == 0:
                with open(out) as file:
                    record = json.load(file)
            state = "trains" if code == 0 else "out of memory" if code == 3 else f"exit {code}"
            print(f"{name:32} {state:14} {seconds:.1f} s", flush=True)
            if code not in (0, 3):
                print(child.tail(process.stderr(), 4), flush=True)
            self.tried[key] = record
        return self.tried[key]

    def bisect(self, workload, allocator, low, high, grain):
        """The largest trained multiple of `grain` in [low, high], or 0."""
        good, bad = 0, high // grain + 1
        probe = max(1, low // grain)
        while good + 1 < bad and not self.out_of_time():
            if self.trains(workload, allocator, probe * grain):
                good = probe
            else:
                bad = probe
            probe = (good + bad) // 2
        return good * grain

    def climb(self, workload, allocator, start, high, grain):
        batch = max(start, grain)
        if self.trains(workload, allocator, batch):
            while batch + grain <= high and not self.out_of_time() and self.trains(workload, allocator, batch + grain):
                batch += grain
            return batch
        while batch > grain and not self.out_of_time():
            batch -= grain
            if self.trains(workload, allocator, batch):
                return batch
        return 0


def main():
    arguments = parse()
    reason = device.why_not(modules=("torch",))
    if reason:
        print(f"skipped: {reason}")
        return device.SKIPPED
    names = arguments.allocators.split(",")
    if any(n in allocators.STALLOC for n in names) and not os.path.exists(arguments.lib or ""):
        print("--lib must name libstalloc.so for the stalloc runs", file=sys.stderr)
        return 2
    os.makedirs(arguments.out, exist_ok=True)
    rows, results = [], []
    nvml = device.Nvml()
    with tempfile.TemporaryDirectory(prefix="stalloc-gpu-") as directory:
        search = Search(arguments, directory)
        with Ballast(nvml, int(arguments.budget_gib * (1 << 30))):
            free_gib = (nvml.total_bytes() - nvml.used_bytes()) / (1 << 30)
            for spec in arguments.workloads.split(","):
                workload, low, high = spec.split(":")
                low, high = int(low), int(high)
                grain = arguments.grain or max(1, high // 32)
                start, base = low, None
                for allocator in names:
                    if search.out_of_time():
                        rows.append([workload, allocator, *["-"] * 5, "left out for time"])
                        continue
                    if allocator == names[0]:
                        largest = start = search.bisect(workload, allocator, low, high, grain)
                    else:
                        largest = search.climb(workload, allocator, start, high, grain)
                    record = search.tried.get((workload, allocator, largest))
                    if not record:
                        rows.append([workload, allocator, 0, *["-"] * 4, "no batch trains"])
                        continue
                    rate = largest / record["median_step_ms"] * 1e3
                    base = base or rate
                    note = "search cut short for time" if search.out_of_time() else ""
                    rows.append([workload, allocator, largest, table.number(record["median_step_ms"], 1)])
                    rows[-1] += [table.number(rate, 1), table.number(rate / base), table.gib(record["peak_allocated_bytes"])]
                    rows[-1].append("at the search's end" if largest + grain > high else note)
                    results.append({"workload": workload, "allocator": allocator, "batch": largest, "record": record})
    command = "python3 tests/gpu/max_batch.py " + " ".join(sys.argv[1:])
    text = f"`{command}` (free on the device: {free_gib:.2f} GiB)\n\n{table.markdown_table(HEADER, rows)}\n"
    with open(os.path.join(arguments.out, "tables.md"), "w") as file:
        file.write(text)
    with open(os.path.join(arguments.out, "results.json"), "w") as file:
        tried = [{"run": list(key), "trains": record is not None} for key, record in search.tried.items()]
        json.dump({"command": command, "free_gib": free_gib, "results": results, "tried": tried}, file)
    print(table.text_table(HEADER, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
