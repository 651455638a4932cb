#!/usr/bin/env python3
"""What a request costs the host, in nanoseconds per pair of allocate and free, and as a multiple of what the same call
natively cost in the same call of this program.

  native     CUDA's own cudaMallocAsync + cudaFreeAsync
  stalloc1   a first run; step_2_to_6 are its iterations before there is a plan, when every call site is looked at
  stalloc2   a second run; its step_last_200 is the planned pair: what recurs is served from the kept plan
  online     STALLOC_PLANNING=0; its step_last_200 is the online pair: every request is served by search, none watched.
             No driver is called in such a pair once memory is mapped, so the shim's share is all of it; nothing is
             taken off
  default, expandable, async      torch.empty + del under PyTorch's own allocators, Python's share of the loop included

The runs alternate (--repeat rounds) and the median is taken, because absolute times move from run to run; those of
PyTorch stand side by side and take turns, a block of pairs each, and their ratio is the median over the blocks, each
over default's of the same turn, with half of its 95 % interval. Writes results.json and tables.md into --out. Exit
code 77: no GPU here.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import allocators, build, child, device, options, shim, table
from harness.compare import median_interval
from harness.turns import Stopped, take_turns

MODES = ("step", "default", "pairs", "threads", "asked")
NATIVE, ONLINE = "native", "online"

SIZES = (("4KiB", 4 << 10), ("1MiB", 1 << 20), ("64MiB", 64 << 20))
BLOCKS = 24  # of pairs, a turn each; the first warms up
TORCH = f"""
import os, sys, time, torch
reports = int(os.environ['{child.TURNS}'])
def turn():
    os.write(reports, b'.')
    sys.stdin.readline() or sys.exit(1)
print('ready', flush=True)
sys.stdin.readline()
device = torch.device('cuda')
def empty(bytes_, n):
    started = time.perf_counter_ns()
    for _ in range(n):
        x = torch.empty(bytes_, dtype=torch.uint8, device=device); del x
    return (time.perf_counter_ns() - started) / n
for label, bytes_ in {SIZES}:
    for block in range({BLOCKS}):
        turn()
        empty(bytes_, 1000)  # the caches have been another process's
        time_ns = empty(bytes_, 6000)
        torch.cuda.synchronize()
        if block: print('row torch_empty_' + label, time_ns)
turn()
"""


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--lib", required=True, help="libstalloc.so")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", default="gpu-microbench")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--no-torch", action="store_true")
    return parser.parse_args()


def runs_of(arguments, program, directory):
    """[(name of the run, its column, command, environment)], those to be compared next to one another."""
    ours = lambda plan=None, **extra: allocators.environment_for("stalloc1", arguments.lib, plan, extra=extra)
    runs = []
    for mode in MODES if program else ():
        command = [program, mode]
        plan = os.path.join(directory, f"{mode}.plan")
        for column, environment in (
            (NATIVE, allocators.clean_environment()),
            ("stalloc1", ours()),
            ("stalloc2", ours(plan)),
            (ONLINE, ours(STALLOC_PLANNING="0")),
        ):
            runs.append((f"{mode}.{column}", column, command, environment))
    if not arguments.no_torch:
        for column in (*allocators.PEERS, *allocators.STALLOC):
            plan = os.path.join(directory, "torch.plan") if column == "stalloc2" else None
            environment = allocators.environment_for(column, arguments.lib, plan)
            runs.append((f"torch.{column}", column, [sys.executable, "-c", TORCH], environment))
    return runs


def one_round(runs, directory, number, timeout_s):
    """Yields (run, child, exit code) of every run: in turn, and those of PyTorch at the end, by turns."""
    by_turns = {}
    for run in runs:
        name, _, command, environment = run
        torch = command[0] == sys.executable
        process = child.Child(command, environment, directory, f"{name}.{number}", gated=torch, turns=torch)
        if torch:
            by_turns[name] = run, process
        else:
            yield run, process, process.wait(timeout_s)[0]
    if not by_turns:
        return
    for _, process in by_turns.values():
        process.wait_until_ready(timeout_s)
        process.release()
    try:
        take_turns([process for _, process in by_turns.values()], len(SIZES) * BLOCKS, timeout_s)
    except Stopped:
        pass  # its exit code says more
    for run, process in by_turns.values():
        process.give_turn()
        yield run, process, process.wait(timeout_s)[0]


def rows_of(values):
    """(header, rows) with a ratio beside each figure: of the C++ rows to native, of torch's to default."""
    columns = [NATIVE, *allocators.PEERS, *allocators.STALLOC, ONLINE]
    rows = []
    for row, cells in values.items():
        middle = {name: statistics.median(found) for name, found in cells.items()}
        base = NATIVE if NATIVE in cells else "default"
        ratio = lambda name: f" ({over(cells, name, base)})" if base in cells and name != base else ""
        rows.append([row, *(table.number(middle[name], 0) + ratio(name) if name in middle else "" for name in columns)])
    used = [i for i in range(len(columns) + 1) if i == 0 or any(row[i] for row in rows)]
    return [["ns per pair", *columns][i] for i in used], [[row[i] for i in used] for row in rows]


def over(cells, name, base):
    """The ratio of two columns, as text: the median of the pairs' ratios where there are enough for an interval."""
    mine, others = cells.get(name), cells.get(base)
    if not mine or not others:
        return "-"
    ratios = [a / b for a, b in zip(mine, others)]
    interval = median_interval(ratios)
    if interval is None:
        return table.number(statistics.median(mine) / statistics.median(others), 2)
    return f"{statistics.median(ratios):.2f} ± {(interval[1] - interval[0]) / 2:.2f}"


def goals(values):
    """(header, rows): the figures that have a goal, and what they are measured against in the same call."""

    def middle(row, column):
        found = values.get(row, {}).get(column)
        return statistics.median(found) if found else None

    native = middle("step_last_200", NATIVE)
    rows = [["cudaMallocAsync + cudaFreeAsync, natively", f"{table.number(native, 0)} ns", ""]]
    steps = values.get("step_last_200", {})
    for words, column, goal in (
        ("planned pair, first run", "stalloc1", "100 ns"),
        ("planned pair, second run", "stalloc2", "100 ns"),
        ("online pair, all of it", ONLINE, "300 ns"),
    ):
        time_ns = table.number(middle("step_last_200", column), 0)
        rows.append([words, f"{time_ns} ns, {over(steps, column, NATIVE)} of native", goal])
    for size, _ in SIZES:
        cells = values.get(f"torch_empty_{size}", {})
        both = ", ".join(over(cells, name, "default") for name in allocators.STALLOC)
        rows.append([f"torch.empty + del, {size}, first run, second run", f"{both} of default", "1.05"])
    for row, words in (("threads_4_own_streams", "a stream each"), ("threads_4_one_stream", "one stream")):
        parts = []
        for name in (NATIVE, "stalloc2", ONLINE):
            pair = {"one": values.get("threads_1", {}).get(name), "four": values.get(row, {}).get(name)}
            parts.append(f"{name} {over(pair, 'four', 'one')}")
        rows.append([f"a pair with four threads at once ({words}), of one thread's", ", ".join(parts), ""])
    return ["what", "measured", "goal"], rows


def main():
    arguments = parse()
    reason = device.why_not(modules=() if arguments.no_torch else ("torch",))
    if reason:
        print(f"skipped: {reason}")
        return device.SKIPPED
    os.makedirs(arguments.out, exist_ok=True)
    values, notes = {}, []
    with tempfile.TemporaryDirectory(prefix="stalloc-gpu-") as directory:
        program, message = build.build_all({"microbench": ("microbench.cu", "shared", [], [])}, directory)["microbench"]
        if program is None:
            notes.append(f"microbench.cu does not build: {message}")
        runs = runs_of(arguments, program, directory)
        first = [run for run in runs if run[1] == "stalloc2"]  # they leave their plans
        for number in range(-1, arguments.repeat):
            chosen = runs if number >= 0 else first
            for (name, column, _, _), process, code in one_round(chosen, directory, number, arguments.timeout):
                for line in process.stdout().splitlines():
                    if number >= 0 and line.startswith("row "):
                        _, row, value = line.split()
                        values.setdefault(row, {}).setdefault(column, []).append(float(value))
                if code != 0:
                    notes.append(f"{name}.{number}: exit {code}: {child.tail(process.stderr(), 3)}")
                elif number == 0:
                    notes += [f"{name}: {found['line']}" for found in shim.summary_lines(process.stderr())]
    content = options.about("microbench.py")
    with open(os.path.join(arguments.out, "results.json"), "w") as file:
        json.dump({**content, "nanoseconds": values, "notes": notes}, file)
    text = f"`{content['command']}`\n\n{content['machine']}, {content['date']}.\n\n{table.markdown_table(*goals(values))}\n\n"
    text += table.markdown_table(*rows_of(values)) + "\n"
    with open(os.path.join(arguments.out, "tables.md"), "w") as file:
        file.write(text)
    print(text)
    for note in notes:
        print(note)
    return 0 if values and not any(": exit " in note or "not build" in note for note in notes) else 1


if __name__ == "__main__":
    sys.exit(main())
