#!/usr/bin/env python3
"""Runs the workloads under every allocator, in turn and in one call, and compares them.

Each run is a process of its own. For a workload the allocators follow one another directly, so that a drift of the
machine meets all of them; the comparison is always with `default` of the same round. What is read:

  counters  1 - peak allocated / peak reserved, from PyTorch's counters for the peers and from the shim's own
            statistics for stalloc;
  outside   1 - peak allocated / (highest device use that NVML showed while the process ran - what is not the
            allocator's). The latter is read per workload from the default run, at the end of its steps: device use less
            PyTorch's reserve, that is context, loaded kernels and the libraries' own memory;
  planned   of a stalloc run's requests; with --after-six also of those after step six: the counts of the whole run less
            those of a run of six steps (the same program, so the same requests);
  step      median over steps of (time / default's time of the same step), after the warm-up: steps of one index do the
            same work under every allocator, also where sizes change from step to step.

Writes results.json, tables.md and logs.txt into --out. Exit code 0: every run finished with the default's bits; 1: not;
77: no GPU or no PyTorch here.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import allocators, device, shim, table
from harness.child import Child, tail

HERE = os.path.dirname(os.path.abspath(__file__))
STATIC = ("gpt2", "llama_rc", "resnet50", "moe")
SHORT = 6  # steps of a short run: the plan must be in force by then
KINDS = STATIC + ("vpp", "bert_var", "eval_mix", "side_streams", "lora", "gnn", "detection")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workloads", default="all", help="comma-separated names, 'four' or 'all'")
    parser.add_argument("--allocators", default=",".join(allocators.ALL))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--lib", help="libstalloc.so; needed for stalloc1 and stalloc2")
    parser.add_argument("--out", default="gpu-results")
    parser.add_argument("--time-budget", type=float, default=560, metavar="SECONDS", help="start no run past this")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="of one run")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="for the stalloc runs")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: dry run of the harness")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--after-six", action="store_true", help="stalloc: a run of six steps more, for 'after 6 %%'")
    parser.add_argument("--no-prestart", action="store_true", help="do not start the next process while one runs")
    arguments = parser.parse_args()
    names = {"all": KINDS, "four": STATIC}.get(arguments.workloads) or arguments.workloads.split(",")
    arguments.workloads = [name for name in names if name]
    arguments.allocators = arguments.allocators.split(",")
    unknown = [n for n in arguments.workloads if n not in KINDS] + [
        n for n in arguments.allocators if n not in allocators.ALL
    ]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; workloads: {', '.join(KINDS)}; allocators: {', '.join(allocators.ALL)}")
    return arguments


class Bench:
    def __init__(self, arguments, directory):
        self.arguments, self.directory = arguments, directory
        self.nvml = device.Nvml()
        self.idle_bytes = self.nvml.used_bytes() or 0
        self.started = time.monotonic()
        self.durations, self.results, self.left_out, self.logs = {}, [], [], []
        self.beginnings = {}  # (workload, allocator, repeat) -> the shim's figures after six steps

    def plan_path(self, workload, allocator, repeat, short):
        """stalloc2 finds what stalloc1 left; a short run has a plan file of its own, so as not to disturb them."""
        whole = os.path.join(self.directory, f"{workload}.{repeat}.plan")
        return f"{whole}.{allocator}.short" if short else whole

    def prepare(self, workload, allocator, repeat, short):
        """Starts the process of one run, gated."""
        name = f"{workload}.{allocator}.{repeat}" + (".six" if short else "")
        paths = {kind: os.path.join(self.directory, f"{name}.{kind}.json") for kind in ("record", "stats")}
        plan = self.plan_path(workload, allocator, repeat, short)
        steps = SHORT if short else self.arguments.steps
        extra = dict(pair.split("=", 1) for pair in self.arguments.env) if allocator in allocators.STALLOC else {}
        environment = allocators.environment_for(allocator, self.arguments.lib, plan, paths["stats"], extra)
        command = [sys.executable, os.path.join(HERE, "scripts", f"{workload}.py"), "--gate"]
        command += ["--steps", str(steps), "--warmup", str(self.arguments.warmup)]
        command += ["--out", paths["record"], "--device", self.arguments.device] + ["--tiny"] * self.arguments.tiny
        return Child(command, environment, self.directory, name, gated=True), paths

    def enough_time(self, workload):
        left = self.arguments.time_budget - (time.monotonic() - self.started)
        return left > self.durations.get(workload, 10.0) * 1.2

    def measure(self, run, prepared, after_release):
        workload, allocator, repeat, short = run
        child, paths = prepared
        whole_plan = self.plan_path(workload, allocator, repeat, False)
        if short and allocator == "stalloc2" and os.path.exists(whole_plan):
            shutil.copyfile(whole_plan, self.plan_path(workload, allocator, repeat, True))
        device.wait_until_idle(self.nvml, self.idle_bytes)
        with device.Sampler([self.nvml]) as sampler:
            child.release()
            upcoming = after_release()
            code, seconds = child.wait(self.arguments.timeout)
        if not short:
            self.durations[workload] = max(seconds, self.durations.get(workload, 0))
        result = {"workload": workload, "allocator": allocator, "repeat": repeat, "exit": code, "seconds": seconds}
        result["outside_peak_bytes"] = sampler.peak_bytes[0]
        result["outside_samples"] = sampler.samples
        try:
            with open(paths["record"]) as file:
                result["record"] = json.load(file)
        except (OSError, ValueError):
            result["record"] = None
        if allocator in allocators.STALLOC:
            result["shim"] = shim.figures_of(child.stderr(), paths["stats"])
        if short:
            self.beginnings[workload, allocator, repeat] = result["shim"]
        else:
            self.results.append(result)
        self.logs.append(f"=== {child.name}: exit {code}, {seconds:.1f} s\n{tail(child.stdout(), 4)}\n{tail(child.stderr())}")
        median = (result["record"] or {}).get("median_step_ms")
        state = "ok" if code == 0 else "TIMED OUT" if code is None else f"EXIT {code}"
        print(f"{child.name:32} {state:10} {seconds:6.1f} s  step {table.number(median, 2)} ms", flush=True)
        if code != 0:
            print(tail(child.stderr(), 8), flush=True)
        return upcoming

    def run_all(self):
        runs = []
        for repeat in range(self.arguments.repeat):
            for workload in self.arguments.workloads:
                for allocator in self.arguments.allocators:
                    runs.append((workload, allocator, repeat, False))
                    if self.arguments.after_six and allocator in allocators.STALLOC:
                        runs.append((workload, allocator, repeat, True))
        upcoming = None
        for i, run in enumerate(runs):
            if not self.enough_time(run[0]):
                self.left_out = [".".join(map(str, x[:3])) + (".six" if x[3] else "") for x in runs[i:]]
                if upcoming:
                    upcoming[0].kill()
                break
            prepared = upcoming or self.prepare(*run)
            following = runs[i + 1] if i + 1 < len(runs) and not self.arguments.no_prestart else None
            upcoming = self.measure(run, prepared, lambda f=following: self.prepare(*f) if f else None)


def not_the_allocators(record):
    """Device use at the end of a step that is not the allocator's reserve: context, kernels, the libraries' own."""
    pairs = list(zip(record["driver_used_bytes"], record["reserved_bytes"]))[1:]
    rest = [used - reserved for used, reserved in pairs if used is not None]
    return statistics.median(rest) if rest else None


def compare(result, base):
    """Adds what is read off one result beside the default's of the same workload and round."""
    record, reference = result["record"], (base or {}).get("record")
    ours = result["allocator"] in allocators.STALLOC
    out = result["compared"] = {}
    if not record:
        return
    finite = bool(record["losses"]) and all(math.isfinite(float.fromhex(x)) for x in record["losses"])
    out["finite"] = finite
    if reference:
        same = record["losses"] == reference["losses"] and record.get("checksum") == reference.get("checksum")
        out["same_bits"] = same and finite and not record["oom"]
        first = next((i for i, (a, b) in enumerate(zip(record["losses"], reference["losses"])) if a != b), None)
        out["first_difference"] = first
        pairs = list(zip(record["step_ms"], reference["step_ms"]))[record["warmup"] :]
        out["step_ratio"] = statistics.median(a / b for a, b in pairs) if pairs else None
    times = record["step_ms"][record["warmup"] :]
    if len(times) > 3:
        quartiles = statistics.quantiles(times, n=4)
        out["step_spread"] = (quartiles[2] - quartiles[0]) / quartiles[1]
    allocated, reserved = record.get("peak_allocated_bytes"), record.get("peak_reserved_bytes")
    figures = result.get("shim", {})
    if ours:
        out["fragmentation"] = figures.get("fragmentation")
    elif allocated and reserved:
        out["fragmentation"] = 1 - allocated / reserved
    rest = not_the_allocators(reference) if reference else None
    if rest is not None and allocated and result["outside_peak_bytes"]:
        out["outside_bytes"] = result["outside_peak_bytes"] - rest
        out["outside_fragmentation"] = 1 - allocated / out["outside_bytes"]


HEADER = ["workload", "allocator", "bits", "step ms", "ratio", "spread %", "live GiB", "held GiB", "frag %", "outside GiB"]
HEADER += ["out frag %", "planned", "online", "passed", "planned %", "after 6 %", "maps"]


def row_of(result):
    record, out, figures = result["record"] or {}, result["compared"], result.get("shim", {})
    if result["exit"] != 0:
        bits = "OOM" if record.get("oom") else "FAILED"
    elif "same_bits" in out:
        bits = "same" if out["same_bits"] else f"DIFFER@{out['first_difference']}"
    else:
        bits = "-"
    name = result["allocator"] + (f"#{result['repeat']}" if result["repeat"] else "")
    return [
        result["workload"],
        name,
        bits,
        table.number(record.get("median_step_ms"), 2),
        table.number(out.get("step_ratio")),
        table.percent(out.get("step_spread"), 1),
        table.gib(figures.get("peak_live_bytes") or record.get("peak_allocated_bytes")),
        table.gib(figures.get("peak_reserved_bytes") or record.get("peak_reserved_bytes")),
        table.percent(out.get("fragmentation")),
        table.gib(out.get("outside_bytes")),
        table.percent(out.get("outside_fragmentation")),
        table.count(figures.get("planned")),
        table.count(figures.get("online")),
        table.count(figures.get("passed_through")),
        table.percent(figures.get("planned_share"), 1),
        table.percent(figures.get("planned_share_after_6"), 1),
        table.count(figures.get("map_calls")),
    ]


def averages(results):
    """Per allocator: mean fragmentation, both ways, and the median and worst step ratio."""
    rows = []
    for name in allocators.ALL:
        mine = [r["compared"] for r in results if r["allocator"] == name and r["exit"] == 0]
        inside = [c["fragmentation"] for c in mine if c.get("fragmentation") is not None]
        outside = [c["outside_fragmentation"] for c in mine if c.get("outside_fragmentation") is not None]
        ratios = [c["step_ratio"] for c in mine if c.get("step_ratio")]
        if mine:
            mean = lambda values: statistics.mean(values) if values else None
            largest = lambda values: max(values) if values else None
            rows.append(
                [name, len(mine), table.percent(mean(inside)), table.percent(largest(inside)), table.percent(mean(outside))]
                + [table.percent(largest(outside)), table.number(statistics.median(ratios) if ratios else None)]
                + [table.number(largest(ratios))]
            )
    return ["allocator", "runs", "mean frag %", "worst", "mean outside %", "worst", "median step ratio", "worst"], rows


def main():
    arguments = parse()
    reason = device.why_not(modules=("torch",)) if arguments.device == "cuda" else None
    if reason:
        print(f"skipped: {reason}")
        return device.SKIPPED
    if any(n in allocators.STALLOC for n in arguments.allocators) and not os.path.exists(arguments.lib or ""):
        print("--lib must name libstalloc.so for the stalloc runs", file=sys.stderr)
        return 2
    os.makedirs(arguments.out, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stalloc-gpu-") as directory:
        bench = Bench(arguments, directory)
        bench.run_all()
    bases = {(r["workload"], r["repeat"]): r for r in bench.results if r["allocator"] == "default"}
    for result in bench.results:
        beginning = bench.beginnings.get((result["workload"], result["allocator"], result["repeat"]))
        if beginning:
            result["shim"]["planned_share_after_6"] = shim.share_of_later_requests(result["shim"], beginning)
        compare(result, bases.get((result["workload"], result["repeat"])))
    rows = [row_of(result) for result in bench.results]
    mean_header, mean_rows = averages(bench.results)
    command = "python3 tests/gpu/run.py " + " ".join(sys.argv[1:])
    about = {"command": command, "driver": bench.nvml.driver_version(), "idle_bytes": bench.idle_bytes}
    about["seconds"] = time.monotonic() - bench.started
    with open(os.path.join(arguments.out, "results.json"), "w") as file:
        json.dump({"about": about, "left_out": bench.left_out, "results": bench.results}, file)
    with open(os.path.join(arguments.out, "logs.txt"), "w") as file:
        file.write("\n\n".join(bench.logs))
    with open(os.path.join(arguments.out, "tables.md"), "w") as file:
        file.write(f"`{command}`\n\n{table.markdown_table(HEADER, rows)}\n\n")
        file.write(table.markdown_table(mean_header, mean_rows) + "\n")
        file.write(f"\nLeft out for time: {', '.join(bench.left_out) or 'nothing'}.\n")
    print(table.text_table(HEADER, rows))
    print()
    print(table.text_table(mean_header, mean_rows))
    for result in bench.results:
        for line in result.get("shim", {}).get("warnings", [])[:2]:
            print(f"{result['workload']}.{result['allocator']}: {line}")
    if bench.left_out:
        print(f"left out for time: {', '.join(bench.left_out)}")
    good = all(r["exit"] == 0 and r["compared"].get("same_bits", True) for r in bench.results)
    return 0 if good and not bench.left_out else 1


if __name__ == "__main__":
    sys.exit(main())
