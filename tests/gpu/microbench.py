#!/usr/bin/env python3
"""What a request costs the host, in nanoseconds: cudaMallocAsync + cudaFreeAsync natively and under the shim (online and
planned), and torch.empty + del under every allocator.

The runs of one comparison alternate (--repeat rounds) and the median is taken, because absolute times move from run to
run. Writes results.json and tables.md into --out. Exit code 77: no GPU here.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import allocators, build, child, device, shim, table

# Python's own share of the loop is in every column alike.
TORCH = """
import statistics, time, torch
device = torch.device('cuda'); n = 20000
def empty(bytes_):
    for _ in range(n):
        x = torch.empty(bytes_, dtype=torch.uint8, device=device); del x
def measure(call, *arguments):
    call(*arguments); torch.cuda.synchronize(); times = []
    for _ in range(7):
        t = time.perf_counter_ns(); call(*arguments); times.append((time.perf_counter_ns() - t) / n); torch.cuda.synchronize()
    return statistics.median(times)
for label, bytes_ in (('4KiB', 4096), ('1MiB', 1 << 20), ('64MiB', 64 << 20)):
    print('row torch_empty_' + label, measure(empty, bytes_))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", required=True, help="libstalloc.so")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", default="gpu-microbench")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--no-torch", action="store_true")
    arguments = parser.parse_args()
    reason = device.why_not(modules=() if arguments.no_torch else ("torch",))
    if reason:
        print(f"skipped: {reason}")
        return device.SKIPPED
    os.makedirs(arguments.out, exist_ok=True)
    values, notes = {}, []
    with tempfile.TemporaryDirectory(prefix="stalloc-gpu-") as directory:
        path, message = build.build_all({"microbench": ("microbench.cu", "shared", [], [])}, directory)["microbench"]
        if path is None:
            notes.append(f"microbench.cu does not build: {message}")
        native = allocators.clean_environment()
        plan = os.path.join(directory, "micro.plan")
        runs = [] if path is None else [("native", [path], native)]
        if path is not None:
            runs.append(("stalloc1", [path], allocators.environment_for("stalloc1", arguments.lib)))
            runs.append(("stalloc2", [path], allocators.environment_for("stalloc2", arguments.lib, plan)))
        if not arguments.no_torch:
            python = [sys.executable, "-c", TORCH]
            runs += [(a, python, allocators.environment_for(a, arguments.lib)) for a in allocators.PEERS + ("stalloc1",)]
        for round_ in range(-1, arguments.repeat):  # round -1: leaves stalloc2 its plan
            for i, (name, command, environment) in enumerate(runs):
                if round_ < 0 and name != "stalloc2":
                    continue
                label = f"{i}.{name}.{round_}"
                process, code, _ = child.run(command, environment, directory, label, arguments.timeout)
                for line in process.stdout().splitlines():
                    if round_ >= 0 and line.startswith("row "):
                        _, row, value = line.split()
                        values.setdefault(row, {}).setdefault(name, []).append(float(value))
                if code != 0:
                    notes.append(f"{label}: exit {code}: {child.tail(process.stderr(), 3)}")
                elif round_ == 0:
                    notes += [f"{label}: {found['line']}" for found in shim.summary_lines(process.stderr())]
    names = ["native", *allocators.PEERS, *allocators.STALLOC]
    header = ["ns per pair", *names]
    rows = []
    for row, cells in values.items():
        middle = {name: statistics.median(found) for name, found in cells.items()}
        rows.append([row, *(table.number(middle.get(name), 0) for name in names)])
    command = "python3 tests/gpu/microbench.py " + " ".join(sys.argv[1:])
    with open(os.path.join(arguments.out, "results.json"), "w") as file:
        json.dump({"command": command, "nanoseconds": values, "notes": notes}, file)
    with open(os.path.join(arguments.out, "tables.md"), "w") as file:
        file.write(f"`{command}`\n\n{table.markdown_table(header, rows)}\n")
    print(table.text_table(header, rows))
    for note in notes:
        print(note)
    return 0 if values and not any(": exit " in note or "not build" in note for note in notes) else 1


if __name__ == "__main__":
    sys.exit(main())
