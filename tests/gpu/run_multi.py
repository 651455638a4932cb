#!/usr/bin/env python3
"""Trains ddp.py on N GPUs under torchrun, with and without the shim, and compares every rank.

The losses and the final parameters of each rank must be those of the default run, bit for bit. Memory is read as in
run.py, per device. Writes results.json, tables.md and logs.txt into --out. Exit code 0: all ranks agree; 1: not; 77:
fewer GPUs here, or no PyTorch.
"""

import argparse
import glob
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import allocators, child, device, options, shim, table
from harness.compare import compare

HERE = os.path.dirname(os.path.abspath(__file__))
# Multicast over NVLink is left alone: a fault in it takes the whole host's GPUs down.
NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
NAMES = ("default", "async", "stalloc1", "stalloc2")
HEADER = ["mode", "allocator", "rank", "bits", "step ms", "ratio", "live GiB", "held GiB", "frag %", "outside GiB"]
HEADER += ["out frag %", "planned", "online", "passed", "planned %"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--modes", default="ddp,fsdp2,pipeline")
    options.add(parser, "gpu-multi-results", NAMES, steps=20, warmup=6, timeout=150)
    return parser.parse_args()


def one_run(arguments, mode, allocator, directory, devices, idle_bytes):
    name = f"{mode}.{allocator}"
    out = os.path.join(directory, name)
    plan = os.path.join(directory, f"{mode}.%r.plan")
    extra = {**NO_MULTICAST, **options.settings(arguments, allocator)}
    environment = allocators.environment_for(allocator, arguments.lib, plan, f"{out}.stats.%r.json", extra)
    environment.setdefault("OMP_NUM_THREADS", "4")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(arguments.gpus)]
    command += [os.path.join(HERE, "ddp.py"), "--mode", mode, "--steps", str(arguments.steps), "--out", out]
    command += ["--warmup", str(arguments.warmup), "--device", arguments.device] + ["--tiny"] * arguments.tiny
    for nvml in devices:
        device.wait_until_idle(nvml, idle_bytes)
    with device.Sampler(devices) as sampler:
        process, code, seconds = child.run(command, environment, directory, name, arguments.timeout)
    print(f"{name:24} {options.state(code)}  {seconds:.1f} s", flush=True)
    if code != 0:
        print(child.tail(process.stderr(), 12), flush=True)
    lines = {line["who"].split()[-1]: line for line in shim.summary_lines(process.stderr())}
    results = []
    for rank in range(arguments.gpus):
        result = {"mode": mode, "allocator": allocator, "rank": rank, "exit": code, "seconds": seconds}
        result["outside_peak_bytes"] = sampler.peak_bytes[rank]
        result["record"] = options.record(f"{out}.{rank}.json")
        if allocator in allocators.STALLOC:
            line = lines.get(f"r{rank}", {}).get("line", "")
            result["shim"] = shim.figures_of(line, f"{out}.stats.{rank}.json")
        results.append(result)
    log = f"=== {name}: exit {code}, {seconds:.1f} s\n{child.tail(process.stdout(), 4)}\n{child.tail(process.stderr(), 40)}"
    return results, log, shim.other_lines(process.stderr())


def row_of(result):
    record, out, figures = result["record"] or {}, result["compared"], result.get("shim", {})
    same = out.get("same_bits")
    bits = "FAILED" if result["exit"] != 0 else "-" if same is None else "same" if same else f"DIFFER@{out['first_difference']}"
    return [
        result["mode"],
        result["allocator"],
        result["rank"],
        bits,
        table.number(record.get("median_step_ms"), 2),
        table.number(out.get("step_ratio")),
        table.gib(figures.get("peak_live_bytes") or record.get("peak_allocated_bytes")),
        table.gib(figures.get("peak_reserved_bytes") or record.get("peak_reserved_bytes")),
        table.percent(out.get("fragmentation")),
        table.gib(out.get("outside_bytes")),
        table.percent(out.get("outside_fragmentation")),
        table.count(figures.get("planned")),
        table.count(figures.get("online")),
        table.count(figures.get("passed_through")),
        table.percent(figures.get("planned_share"), 1),
    ]


def main():
    arguments = parse()
    reason = device.why_not(devices=arguments.gpus, modules=("torch",)) if arguments.device == "cuda" else None
    if reason:
        print(f"skipped: {reason}")
        return device.SKIPPED
    if reason := options.lacks_library(arguments):
        print(reason, file=sys.stderr)
        return 2
    os.makedirs(arguments.out, exist_ok=True)
    started, results, logs, said, left_out = time.monotonic(), [], [], {}, []
    devices = [device.Nvml(i) for i in range(arguments.gpus)]
    idle_bytes = max(nvml.used_bytes() or 0 for nvml in devices)
    longest = 20.0
    with tempfile.TemporaryDirectory(prefix="stalloc-gpu-") as directory:
        for mode in arguments.modes.split(","):
            for name in arguments.allocators:
                if arguments.time_budget - (time.monotonic() - started) < longest * 1.2:
                    left_out.append(f"{mode}.{name}")
                    continue
                found, log, lines = one_run(arguments, mode, name, directory, devices, idle_bytes)
                longest = max(longest, found[0]["seconds"])
                results += found
                logs.append(log)
                said[f"{mode}.{name}"] = lines[:4]
        plans = sorted(os.path.basename(path) for path in glob.glob(os.path.join(directory, "*.plan")))
    bases = {(r["mode"], r["rank"]): r for r in results if r["allocator"] == "default"}
    for result in results:
        compare(result, bases.get((result["mode"], result["rank"])))
    rows = [row_of(result) for result in results]
    command = "python3 tests/gpu/run_multi.py " + " ".join(sys.argv[1:])
    with open(os.path.join(arguments.out, "results.json"), "w") as file:
        json.dump({"command": command, "plans": plans, "left_out": left_out, "results": results}, file)
    with open(os.path.join(arguments.out, "logs.txt"), "w") as file:
        file.write("\n\n".join(logs))
    with open(os.path.join(arguments.out, "tables.md"), "w") as file:
        file.write(f"`{command}`\n\n{table.markdown_table(HEADER, rows)}\n\nLeft out: {', '.join(left_out) or 'nothing'}.\n")
    print(table.text_table(HEADER, rows))
    for name, lines in said.items():
        for line in lines:
            print(f"{name}: {line}")
    if left_out:
        print(f"left out for time: {', '.join(left_out)}")
    good = all(r["exit"] == 0 and r["compared"].get("same_bits", True) for r in results)
    return 0 if good and not left_out else 1


if __name__ == "__main__":
    sys.exit(main())
