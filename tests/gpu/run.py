#!/usr/bin/env python3
"""Runs the workloads under every allocator, in turn and in one call, and compares them.

Each run is a process of its own. For a workload the allocators follow one another directly, with `default` once more at
the end (`default-again`), so that a drift of the machine meets all of them and the table can say what noise is; the
comparison is always with `default` of the same round. What is read:

  counters  1 - peak allocated / peak reserved, from PyTorch's counters for the peers and from the shim's own
            statistics for stalloc;
  outside   1 - peak allocated / (highest device use that NVML showed while the process ran - what is not the
            allocator's). The latter is read per workload from a run without the shim (default, or async for the runs on
            that backend), at the end of its steps: device use less PyTorch's reserve, that is context, loaded kernels
            and the libraries' own memory. How much more of it there is than under default is the column "fixed";
  planned   of a stalloc run's requests; with --after N also of those after step N: the counts at the end less those in
            the statistics that the shim is asked for, by a signal, before the program goes on to the next step; likewise
            what is mapped after step N, which is otherwise read off the iterations that the shim has told apart;
  step      median over steps of (time / default's time of the same step), after the warm-up: steps of one index do the
            same work under every allocator, also where sizes change from step to step.

Processes are started early, as many side by side as there are cores, and wait with their imports done; nothing is
imported while one is measured. results.json, tables.md and logs.txt in --out are written anew after every run, so that
whatever cuts the call short leaves what was measured. --merge FILE... measures nothing: it makes the tables of several
calls' results.json together, further rounds of one workload or other workloads.

Exit code 0: every run finished with the default's bits; 1: not; 77: no GPU or no PyTorch here.
"""

import argparse
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import allocators, device, options, report, shim, table
from harness.child import Child, tail
from harness.compare import compare_all, merge, summaries

HERE = os.path.dirname(os.path.abspath(__file__))
STATIC = ("gpt2", "llama_rc", "resnet50", "moe")
KINDS = STATIC + ("vpp", "bert_var", "eval_mix", "side_streams", "lora", "gnn", "detection")
# Written when the allocator stood, to see what it makes of programs that no decision in it was taken on.
UNSEEN = ("gan", "rlhf", "rlhf_static", "diffusion", "second_order", "long_context", "lstm_packed", "vit_multires")
UNSEEN += ("graph_capture", "contrastive", "curriculum", "beam_eval")
UNSEEN += ("seq2seq", "fourier", "recommender", "ppo", "averaged", "point_cloud", "adaptive_ode")
GROUPS = {"all": KINDS, "four": STATIC, "unseen": UNSEEN}


def chosen(text):
    """The workloads of a comma-separated list of names and groups, each once: an argument's type. A name may be
    followed by sizes, as in moe:layers=12:experts=16."""
    names = [name for part in text.split(",") if part for name in GROUPS.get(part, (part,))]
    unknown = [name for name in names if name.split(":")[0] not in KINDS + UNSEEN]
    if unknown:
        known = f"workloads: {', '.join(KINDS + UNSEEN)}; groups: {', '.join(GROUPS)}"
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; {known}")
    return list(dict.fromkeys(names))


def program(workload):
    """The command line, without options of the run, of a workload as chosen() knows it."""
    name, *sizes = workload.split(":")
    return [sys.executable, os.path.join(HERE, "scripts", f"{name}.py"), *(f"--size={size}" for size in sizes)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--workloads",
        type=chosen,
        default="all",
        help=f"comma-separated names, each with its sizes (moe:layers=12:experts=16), or groups: {', '.join(GROUPS)}",
    )
    options.add(parser, "gpu-results")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="measure nothing: tables of these results.json")
    parser.add_argument(
        "--after", type=int, default=0, metavar="N", help="stalloc: also what is planned and mapped after step N"
    )
    parser.add_argument(
        "--early", type=int, default=os.cpu_count(), metavar="N", help="processes to start side by side"
    )
    arguments = parser.parse_args()
    if arguments.after and not 0 < arguments.after < arguments.steps:
        parser.error(f"--after {arguments.after}: a step before the last of {arguments.steps} is meant")
    return arguments


class Run:
    """One process to be measured, and the files that it and the shim leave."""

    def __init__(self, directory, workload, allocator, repeat):
        self.workload, self.allocator, self.repeat = workload, allocator, repeat
        self.name = f"{workload}.{allocator}.{repeat}"
        self.record_path = os.path.join(directory, f"{self.name}.record.json")
        self.statistics_path = os.path.join(directory, f"{self.name}.stats.json")
        self.plan = os.path.join(directory, f"{workload}.{repeat}.plan")  # stalloc2 finds what stalloc1 left
        self.child = None


class Bench:
    def __init__(self, arguments, directory, save):
        self.arguments, self.directory, self.save = arguments, directory, save
        self.nvml = device.Nvml()
        self.idle_bytes = self.nvml.used_bytes() or 0
        self.started = time.monotonic()
        self.durations, self.results, self.left_out, self.logs = {}, [], [], []

    def start(self, run):
        """Starts a run's process, which will wait at its gate."""
        arguments = self.arguments
        extra = options.settings(arguments, run.allocator)
        if arguments.after and run.allocator in allocators.STALLOC:
            extra["STALLOC_STATS_SIGNAL"] = "SIGUSR2"
        environment = allocators.environment_for(run.allocator, arguments.lib, run.plan, run.statistics_path, extra)
        command = [*program(run.workload), "--gate"]
        command += ["--steps", str(arguments.steps), "--warmup", str(arguments.warmup)]
        command += ["--out", run.record_path, "--device", arguments.device] + ["--tiny"] * arguments.tiny
        turns = arguments.after != 0  # under every allocator, for a turn takes some microseconds between two steps
        run.child = Child(command, environment, self.directory, run.name, gated=True, turns=turns)

    def enough_time(self, workload):
        left = self.arguments.time_budget - (time.monotonic() - self.started)
        return left > self.durations.get(workload, 10.0) * 1.2

    def measure(self, run):
        child = run.child
        device.wait_until_idle(self.nvml, self.idle_bytes)
        with device.Sampler([self.nvml]) as sampler:
            child.release()
            beginning = self.go_through_turns(run) if self.arguments.after else {}
            code, seconds = child.wait(self.seconds_left(run))
        self.durations[run.workload] = max(seconds, self.durations.get(run.workload, 0))
        result = {"workload": run.workload, "allocator": run.allocator, "repeat": run.repeat, "exit": code}
        result.update(seconds=seconds, outside_peak_bytes=sampler.peak_bytes[0], outside_samples=sampler.samples)
        result["record"] = options.record(run.record_path)
        if run.allocator in allocators.STALLOC:
            result["shim"] = figures = shim.figures_of(child.stderr(), run.statistics_path)
            if beginning:
                later = self.arguments.steps - self.arguments.after
                figures["planned_share_after"] = shim.share_of_later_requests(figures, beginning)
                figures["mapping_after"] = shim.mapping_of_later_steps(figures, beginning, later)
        self.results.append(result)
        self.logs.append(
            f"=== {run.name}: exit {code}, {seconds:.1f} s\n{tail(child.stdout(), 4)}\n{tail(child.stderr())}"
        )
        median = (result["record"] or {}).get("median_step_ms")
        print(f"{run.name:32} {options.state(code):10} {seconds:6.1f} s  step {table.number(median, 2)} ms", flush=True)
        if code != 0:
            print(tail(child.stderr(), 8), flush=True)

    def seconds_left(self, run):
        """Of the time limit of a run that has been released."""
        return max(0.0, run.child.started + self.arguments.timeout - time.monotonic())

    def go_through_turns(self, run):
        """Lets a child that takes turns do all of its steps. Returns the shim's figures after step --after, {} if it has
        none; a child that stops early is left to whoever waits for it."""
        beginning = {}
        for step in range(self.arguments.steps + 1):
            if not run.child.await_turn(self.seconds_left(run)):
                break
            if step == self.arguments.after and run.allocator in allocators.STALLOC:
                beginning = shim.statistics_on_request(run.child.process, run.statistics_path)
            run.child.give_turn()
        return beginning

    def waves(self):
        """Lists of runs whose processes start together: whole workloads, as many as fit into --early."""
        wave = []
        for repeat in range(self.arguments.repeat):
            for workload in self.arguments.workloads:
                group = [Run(self.directory, workload, name, repeat) for name in self.arguments.allocators]
                if wave and len(wave) + len(group) > self.arguments.early:
                    yield wave
                    wave = []
                wave += group
        yield wave

    def run_wave(self, wave):
        waiting = list(wave)
        try:
            for run in wave:
                self.start(run)
            for run in wave:
                run.child.wait_until_ready(self.arguments.timeout)
            while waiting and self.enough_time(waiting[0].workload):
                self.measure(waiting.pop(0))
                self.save(self)
        finally:
            for run in waiting:
                run.child.dismiss()
        return waiting

    def run_all(self):
        for wave in self.waves():
            if self.left_out or not self.enough_time(wave[0].workload):
                self.left_out += [run.name for run in wave]
            else:
                self.left_out += [run.name for run in self.run_wave(wave)]
        self.save(self)


def write(path, text):
    with open(path + ".part", "w") as file:
        file.write(text)
    os.replace(path + ".part", path)


def saver(arguments, about):
    """A function that writes what a bench has so far."""

    def save(bench):
        compare_all(bench.results)
        content = {**about, "left_out": bench.left_out, "results": bench.results}
        write(os.path.join(arguments.out, "results.json"), json.dumps(content))
        write(os.path.join(arguments.out, "logs.txt"), "\n\n".join(bench.logs))
        write_tables(arguments.out, content)

    return save


def write_tables(out, content):
    """tables.md from what results.json holds. Returns (its text, the shortfalls)."""
    found = summaries(content["results"])
    text = f"`{content['command']}`\n\n{content['machine']}, {content['date']}.\n\n{report.markdown(found)}"
    missing = report.shortfalls(found)
    text += "\nFalls short: " + ("; ".join(missing) or "nothing") + ".\n"
    text += f"\nLeft out for time: {', '.join(content['left_out']) or 'nothing'}.\n"
    write(os.path.join(out, "tables.md"), text)
    return text


def merged(paths):
    """One content as in results.json, of several files."""
    contents = options.contents(paths)
    results = merge([content["results"] for content in contents])
    compare_all(results)
    one = {key: "; ".join(dict.fromkeys(c[key] for c in contents)) for key in ("command", "machine", "date")}
    return {**one, "left_out": sum((c["left_out"] for c in contents), []), "results": results}


def main():
    arguments = parse()
    os.makedirs(arguments.out, exist_ok=True)
    if arguments.merge:
        content = merged(arguments.merge)
        write(os.path.join(arguments.out, "results.json"), json.dumps(content))
        print(write_tables(arguments.out, content))
        return 0
    reason = device.why_not(modules=("torch",)) if arguments.device == "cuda" else None
    if reason:
        print(f"skipped: {reason}")
        return device.SKIPPED
    if reason := options.lacks_library(arguments):
        print(reason, file=sys.stderr)
        return 2
    about = options.about("run.py")
    with tempfile.TemporaryDirectory(prefix="stalloc-gpu-") as directory:
        bench = Bench(arguments, directory, saver(arguments, about))
        bench.run_all()
    print(write_tables(arguments.out, {**about, "left_out": bench.left_out, "results": bench.results}))
    for result in bench.results:
        for line in result.get("shim", {}).get("warnings", [])[:2]:
            print(f"{result['workload']}.{result['allocator']}: {line}")
    return 0 if options.all_good(bench.results) and not bench.left_out else 1


if __name__ == "__main__":
    sys.exit(main())
