#!/usr/bin/env python3
"""What held memory buys: under one fixed budget, the largest configuration that trains under each allocator, and its
throughput.

A case is WORKLOAD@BUDGET. Its level is what takes more memory: the batch (gpt2, bert_var, ...) or, for llama_rc, the
number of layers that keep their activations instead of computing them again. BUDGET is in GiB, or fit:LEVEL: as much
as that level needs if nothing is wasted (its live bytes, 1.5 % and 64 MiB more, and what is not the allocator's), the
budget under which waste costs most.

  1. Two runs with the whole device to themselves give live bytes as a line over the level, and from it first guesses.
  2. A ballast process leaves the budget free on the device, the same for every allocator.
  3. Per allocator the largest level is searched for, from the guess by doubling steps and then by bisection; "trains"
     means that --steps steps finish. stalloc2 starts from the plan that stalloc1 left at that level.
  4. What was found is measured in turn, --final-steps each; if that many do not finish, one level less is. For llama_rc
     also level 0, everything recomputed, under default. Throughput is samples over the time of the steps after the
     warm-up, all of them: a step in which the allocator had to give memory back and ask again counts.

results.json and tables.md in --out are written anew as results come; --merge FILE... makes the tables of several calls'
results.json. Exit code 0: every search came to its end; 1: not; 77: no GPU, no PyTorch.
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import allocators, child, device, options, table
from harness.ballast import Ballast
from harness.compare import not_the_allocators
from harness.pool import Pool

HERE = os.path.dirname(os.path.abspath(__file__))
GIB = 1 << 30
BUDGET = re.compile(r"fit:\d+|\d+(\.\d+)?")
SLACK, EXTRA = 1.015, 64 << 20  # of the live bytes, and bytes beside them, in a budget that just fits
# Held bytes over live bytes, for the first question of a search; a wrong figure costs a question or two.
LIKELY_WASTE = {"default": 1.1, "expandable": 1.03, "async": 1.05, "stalloc1": 1.005}
HEADER = ["case", "free GiB", "allocator", "largest", "step ms", "samples/s", "against default", "live GiB", "retries"]
HEADER += ["remark"]


class Levels:
    """A workload's level: the options that choose it, its words, its range, and the samples of one step."""

    def __init__(self, low, high, options, words, samples):
        self.low, self.high, self.options, self.words, self.samples = low, high, options, words, samples


def _batches(high):
    return Levels(1, high, lambda level: ["--batch", level], lambda level: f"batch {level}", lambda level: level)


LAYERS, LLAMA_BATCH = 16, 4  # of scripts/llama_rc.py
LEVELS = {
    "gpt2": _batches(64),
    "bert_var": _batches(96),
    "side_streams": _batches(64),
    "eval_mix": _batches(32),
    "lora": _batches(64),
    "resnet50": _batches(1024),
    "llama_rc": Levels(
        0,
        LAYERS,
        lambda level: ["--batch", LLAMA_BATCH, "--recompute", LAYERS - level],
        lambda level: f"{LAYERS - level} of {LAYERS} layers recomputed",
        lambda level: LLAMA_BATCH,
    ),
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--cases", default="gpt2@24,llama_rc@fit:16,bert_var@24", help="WORKLOAD@GIB or WORKLOAD@fit:LEVEL,..."
    )
    parser.add_argument("--allocators", type=allocators.chosen, default="default,expandable,async,stalloc1,stalloc2")
    parser.add_argument("--steps", type=int, default=14, help="that a level must survive in the search")
    parser.add_argument("--final-steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=8, help="steps of the final runs that are left out")
    parser.add_argument("--lib", help="libstalloc.so")
    parser.add_argument("--out", default="gpu-max-batch")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="measure nothing: tables of these results.json")
    parser.add_argument("--timeout", type=float, default=90, metavar="SECONDS", help="of one run")
    parser.add_argument("--time-budget", type=float, default=560, metavar="SECONDS", help="start nothing past this")
    arguments = parser.parse_args()
    arguments.cases = [case.split("@") for case in arguments.cases.split(",")]
    for case in arguments.cases:
        if len(case) != 2 or case[0] not in LEVELS or not BUDGET.fullmatch(case[1]):
            parser.error(f"{'@'.join(case)}: a case is WORKLOAD@GIB or WORKLOAD@fit:LEVEL, of {', '.join(LEVELS)}")
    return arguments


def largest(trains, guess, low, high):
    """The largest level in [low, high] that trains, None if none does; trains(level) is taken to be monotone."""
    good, bad = low - 1, high + 1
    probe, step = min(max(guess, low), high), 1
    while bad - good > 1:
        if trains(probe):
            good = probe
            probe = good + step if bad > high else (good + bad) // 2
        else:
            bad = probe
            probe = bad - step if good < low else (good + bad) // 2
        probe, step = min(max(probe, good + 1), bad - 1), 2 * step
    return good if good >= low else None


class OutOfTime(Exception):
    pass


class Case:
    """The search of one workload under one budget."""

    def __init__(self, arguments, workload, directory, nvml, clock, tried):
        self.arguments, self.workload, self.directory = arguments, workload, directory
        self.nvml, self.clock, self.tried = nvml, clock, tried
        self.levels = LEVELS[workload]
        self.idle_bytes = nvml.used_bytes()
        self.pool = Pool(os.path.join(HERE, "scripts", f"{workload}.py"), arguments.lib, directory, workload)

    def run(self, allocator, level, steps, warmup):
        """The record of a run that finished all steps, or None; notes which in `tried`."""
        if self.clock.left() < 10:
            raise OutOfTime
        out = os.path.join(self.directory, f"{self.workload}.{len(self.tried)}.json")
        words = [*self.levels.options(level), "--steps", steps, "--warmup", warmup, "--out", out]
        plan = os.path.join(self.directory, f"{self.workload}.level{level}.plan")
        device.wait_until_idle(self.nvml, self.idle_bytes, slack_bytes=16 << 20)
        process, code, seconds = self.pool.run(allocator, words, self.arguments.timeout, plan)
        record = options.record(out)
        trained = code == 0 and record is not None and len(record["step_ms"]) == steps
        state = "trains" if trained else "out of memory" if record and record["oom"] else f"exit {code}"
        note = "" if trained or state == "out of memory" else child.tail(process.stderr(), 2)
        attempt = {"workload": self.workload, "allocator": allocator, "level": level, "steps": steps}
        self.tried.append({**attempt, "seconds": seconds, "state": state, "note": note})
        print(
            f"{self.workload:12} {allocator:10} {self.levels.words(level):32} {state:14} {seconds:5.1f} s {note}",
            flush=True,
        )
        return record if trained else None

    def live_line(self, level):
        """((slope, intercept) of peak live bytes over the level, bytes that are not the allocator's).

        Measured unhindered at `level` and at the lowest, and over all final steps: the longest sequence may come late.
        """
        low, high = self.levels.low, min(self.levels.high, max(level, self.levels.low + 1))
        records = [self.run("default", level, self.arguments.final_steps, 1) for level in (low, high)]
        if None in records:
            raise RuntimeError(f"{self.workload} does not train with the whole device to itself")
        peaks = [record["peak_allocated_bytes"] for record in records]
        slope = (peaks[1] - peaks[0]) / (high - low)
        if slope <= 0:
            raise RuntimeError(f"{self.workload}: no more live bytes at level {high} than at level {low}")
        return (slope, peaks[0] - slope * low), not_the_allocators(records[1]) - self.idle_bytes

    def search(self, guesses):
        """{allocator: largest level or None}; stalloc2 begins where stalloc1 ended."""
        arguments, levels, found = self.arguments, self.levels, {}
        for allocator in arguments.allocators:
            self.pool.start(allocator, 2)
        for allocator in arguments.allocators:

            def trains(level, allocator=allocator):
                self.pool.start(allocator)  # ready for the next question by then
                return self.run(allocator, level, arguments.steps, arguments.steps // 2) is not None

            guess = guesses.get(allocator) or found.get("stalloc1") or levels.low
            found[allocator] = largest(trains, guess, levels.low, levels.high)
        return found

    def final(self, found):
        """Yields (allocator, level, record or None, remark): the levels found, measured in turn.

        One level less where one does not last; and where the allocator had to give memory back and ask again, the level
        below is measured too, as it may be quicker.
        """
        arguments, levels = self.arguments, self.levels
        runs = [(name, level, "") for name, level in found.items() if level is not None]
        if self.workload == "llama_rc" and found.get("default"):
            runs.insert(0, ("default", levels.low, "for comparison"))
        names = [name for name, _, _ in runs]
        self.pool.fill({name: names.count(name) for name in names}, arguments.timeout)
        train = lambda name, level: self.run(name, level, arguments.final_steps, arguments.warmup)
        for name, level, remark in runs:
            record = train(name, level)
            while record is None and level > levels.low:
                remark = f"{levels.words(level)}: ended before {arguments.final_steps} steps"
                level -= 1
                record = train(name, level)
            yield name, level, record, remark
            if record and record.get("allocation_retries") and level > levels.low:
                yield name, level - 1, train(name, level - 1), "for comparison"


def rate(record, samples):
    """Samples per second over all steps after the warm-up."""
    timed = record["step_ms"][record["warmup"] :]
    return samples * len(timed) / sum(timed) * 1e3


class Clock:
    def __init__(self, budget_s):
        self._end = time.monotonic() + budget_s

    def left(self):
        return self._end - time.monotonic()


def measure(arguments, case, nvml, directory, clock, content, save):
    """Searches and measures one case; adds to content's results and attempts, and calls save() after every result."""
    workload, budget = case
    one = Case(arguments, workload, directory, nvml, clock, content["tried"])
    levels = one.levels
    with one.pool:
        one.pool.start("default", 2)
        fit = int(budget[len("fit:") :]) if budget.startswith("fit:") else None
        (slope, intercept), rest = one.live_line(levels.low + 8 if fit is None else fit)
        live = lambda level: intercept + slope * level
        size = int(float(budget) * GIB) if fit is None else int(rest + SLACK * live(fit) + EXTRA)
        device.wait_until_idle(nvml, one.idle_bytes)
        with Ballast(nvml, size) as ballast:
            one.idle_bytes = nvml.used_bytes()
            print(f"{workload}: {ballast.left_bytes / GIB:.2f} GiB left free", flush=True)
            guesses = {name: int(((size - rest) / waste - intercept) / slope) for name, waste in LIKELY_WASTE.items()}
            found = one.search(guesses)
            for name, level, record, remark in one.final(found):  # each as soon as it is measured
                row = {
                    "case": "@".join(case),
                    "workload": workload,
                    "free_bytes": ballast.left_bytes,
                    "allocator": name,
                }
                row.update(level=level, words=levels.words(level), remark=remark, record=record)
                row["rate"] = rate(record, levels.samples(level)) if record else None
                content["results"].append(row)
                save()


def table_rows(results):
    """(header, rows) of results, each beside the default's best of the same case."""
    rows = []
    for r in results:
        mine = [o["rate"] for o in results if o["case"] == r["case"] and o["allocator"] == "default" and o["rate"]]
        rows.append([r["case"], table.number(r["free_bytes"] / GIB, 2), r["allocator"]])
        if r["rate"] is None:
            rows[-1] += ["none trains", *["-"] * 5, r["remark"]]
            continue
        record = r["record"]
        timed = record["step_ms"][record["warmup"] :]
        rows[-1] += [r["words"], table.number(statistics.mean(timed), 1), table.number(r["rate"], 2)]
        rows[-1] += [table.number(r["rate"] / max(mine)) if mine else "-", table.gib(record["peak_allocated_bytes"])]
        rows[-1] += [table.count(record.get("allocation_retries")), r["remark"]]
    return HEADER, rows


def write(out, content):
    text = f"`{content['command']}`\n\n{content['machine']}, {content['date']}.\n\n"
    text += table.markdown_table(*table_rows(content["results"])) + "\n"
    text += f"\nLeft out: {', '.join(content['left_out']) or 'nothing'}.\n"
    for name, data in (("results.json", json.dumps(content)), ("tables.md", text)):
        with open(os.path.join(out, name + ".part"), "w") as file:
            file.write(data)
        os.replace(file.name, os.path.join(out, name))
    return text


def merged(paths):
    contents = []
    for path in paths:
        with open(path) as file:
            contents.append(json.load(file))
    one = {key: "; ".join(dict.fromkeys(c[key] for c in contents)) for key in ("command", "machine", "date")}
    for key in ("left_out", "results", "tried"):
        one[key] = sum((c[key] for c in contents), [])
    return one


def main():
    arguments = parse()
    os.makedirs(arguments.out, exist_ok=True)
    if arguments.merge:
        print(write(arguments.out, merged(arguments.merge)))
        return 0
    reason = device.why_not(modules=("torch",))
    if reason:
        print(f"skipped: {reason}")
        return device.SKIPPED
    if reason := options.lacks_library(arguments):
        print(reason, file=sys.stderr)
        return 2
    content = {**options.about("max_batch.py"), "left_out": [], "results": [], "tried": []}

    clock, nvml = Clock(arguments.time_budget), device.Nvml()
    with tempfile.TemporaryDirectory(prefix="stalloc-gpu-") as directory:
        for case in arguments.cases:
            try:
                save = lambda: write(arguments.out, content)
                measure(arguments, case, nvml, directory, clock, content, save)
            except (OutOfTime, RuntimeError) as error:
                content["left_out"].append(f"{'@'.join(case)} ({error or 'out of time'})")
    print(write(arguments.out, content))
    return 1 if content["left_out"] else 0


if __name__ == "__main__":
    sys.exit(main())
