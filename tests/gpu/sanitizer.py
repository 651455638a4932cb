#!/usr/bin/env python3
"""Tools that look at a program from below, with the shim and without it.

compute-sanitizer (--sanitizer PATH; else on PATH, in the toolkit, or in the Python package nvidia-cuda-sanitizer-api):
a sound program, single faults, the contract program and, where there is PyTorch, a small training run. Under it the
shim has to step aside and say so in one line; what the program prints, its exit code and what the tool reports have to
be the same as without the shim, and a fault has to be reported.

A profiler: a library that the driver loads (CUDA_INJECTION64_PATH) and that has CUPTI record kernels and copies. It has
to see the same with the shim, which serves.

Prints a table; writes results.json, tables.md and logs.txt into --out. Exit code 0: all as said; 1: not; 77: no GPU, no
nvcc, or neither tool can be had.
"""

import argparse
import glob
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import allocators, build, child, device, shim, table

HERE = os.path.dirname(os.path.abspath(__file__))
ATTACHED = "compute-sanitizer is attached"
# tool, what runs under it, and whether the tool has to report something.
FAULTS = (
    ("memcheck", "sound", False),
    ("memcheck", "overrun", True),
    ("memcheck", "overrun_async", True),
    ("memcheck", "after_free", True),
    ("memcheck", "contract", None),
    ("initcheck", "uninitialised", True),
    ("racecheck", "race", True),
    ("memcheck", "training", False),
)


def find_sanitizer(given):
    """The launcher's path, or None."""
    if given:
        return os.path.abspath(given) if os.path.exists(given) else None
    found = [shutil.which("compute-sanitizer"), "/usr/local/cuda/compute-sanitizer/compute-sanitizer"]
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations if package else ():
        found += sorted(glob.glob(os.path.join(folder, "*", "compute-sanitizer", "compute-sanitizer")))
        found += sorted(glob.glob(os.path.join(folder, "*", "bin", "compute-sanitizer")))
    return next((path for path in found if path and os.path.exists(path)), None)


def findings(report):
    """What the tool found, in its words, without what changes from run to run: addresses, distances between allocations,
    how often a race was seen."""
    kept = re.compile(r"Invalid|Uninitialized|[Hh]azard|Race|out of bounds|nearest allocation|SUMMARY|Program hit|Leaked")
    lines = []
    for line in report.splitlines():
        if not line.startswith("=========") or not kept.search(line):
            continue
        line = re.sub(r"0x[0-9a-fA-F]+", "ADDRESS", line.strip("= "))
        line = re.sub(r"is [\d,]{8,} bytes (before|after)", "is far from", line)
        lines.append(re.sub(r" \[\d+ hazards\]", "", line))
    return lines


def errors(report):
    """The tool's own count: of errors, or of racecheck's hazards. None: it has not come so far."""
    found = re.search(r"(?:ERROR SUMMARY:|RACECHECK SUMMARY:) (\d+)", report)
    return int(found[1]) if found else None


def judge(plain, served, expected):
    """plain, served: what a run left, without the shim and with it. Returns what is wrong, as text; "": nothing."""
    faults = []
    if plain["errors"] is None:
        return "the tool does not come to its end without the shim: " + plain["report"][-300:]
    if expected is True and plain["errors"] == 0:
        faults.append("the tool does not report the fault, with or without the shim")
    if expected is False and plain["errors"] != 0:
        faults.append("the tool reports something in a sound program")
    for what in ("exit", "output", "errors", "findings"):
        if plain[what] != served[what]:
            faults.append(f"{what}: {plain[what]!r} without the shim, {served[what]!r} with it")
    if served["said"] != 1:
        faults.append(f"the shim says {served['said']} times that it steps aside")
    if served["served"]:
        faults.append(f"the shim served {served['served']} requests")
    return "; ".join(faults)


def served_requests(stderr):
    return sum((line["planned"] or 0) + (line["online"] or 0) for line in shim.summary_lines(stderr))


class Sanitizer:
    def __init__(self, launcher, library, directory, timeout_s):
        self.launcher, self.library, self.directory, self.timeout_s = launcher, library, directory, timeout_s
        self.logs = []

    def run(self, tool, name, command, with_shim):
        title = f"{tool}.{name}.{'shim' if with_shim else 'plain'}"
        report_path = os.path.join(self.directory, title + ".report")
        record_path = os.path.join(self.directory, title + ".json")
        environment = (
            allocators.environment_for("stalloc1", self.library) if with_shim else allocators.clean_environment()
        )
        whole = [self.launcher, "--tool", tool, "--log-file", report_path]
        whole += [part.replace("RECORD", record_path) for part in command]
        process, code, seconds = child.run(whole, environment, self.directory, title, self.timeout_s)
        report = read(report_path)
        output = process.stdout() if name != "training" else losses(record_path)
        stderr = process.stderr()
        self.logs.append(f"=== {title}: exit {code}, {seconds:.1f} s\n{report[-6000:]}\n{child.tail(stderr)}\n{output[-1500:]}")
        print(f"{title:34} exit {code}  {seconds:.1f} s", flush=True)
        return {
            "exit": code,
            "output": output,
            "report": report,
            "errors": errors(report),
            "findings": findings(report),
            "said": stderr.count(ATTACHED),
            "served": served_requests(stderr),
        }


def read(path):
    if not os.path.exists(path):
        return ""
    with open(path, errors="replace") as file:
        return file.read()


def losses(path):
    """The bits of a training run's losses: its printed line has times in it."""
    text = read(path)
    return json.dumps(json.loads(text)["losses"]) if text else "no record"


def check_sanitizer(arguments, launcher, programs, directory):
    sanitizer = Sanitizer(launcher, arguments.lib, directory, arguments.timeout)
    training = [sys.executable, os.path.join(HERE, "scripts", "gpt2.py"), "--tiny", "--steps", "3", "--out", "RECORD"]
    rows = []
    for tool, name, expected in FAULTS:
        if name == "training" and importlib.util.find_spec("torch") is None:
            rows.append([tool, name, "", "", "skipped: no PyTorch"])
            continue
        command = {"contract": [programs["contract"]], "training": training}.get(name, [programs["target"], name])
        plain, served = (sanitizer.run(tool, name, command, with_shim) for with_shim in (False, True))
        fault = judge(plain, served, expected)
        rows.append([tool, name, plain["errors"], served["errors"], "**" + fault + "**" if fault else "same"])
    return rows, sanitizer.logs


def check_cupti(arguments, programs, directory):
    seen, rows, logs = {}, [], []
    for column in ("plain", "shim"):
        environment = (
            allocators.environment_for("stalloc1", arguments.lib) if column == "shim" else allocators.clean_environment()
        )
        environment["CUDA_INJECTION64_PATH"] = programs["probe"]
        process, code, seconds = child.run(
            [programs["target"], "sound"], environment, directory, f"cupti.{column}", arguments.timeout
        )
        line = next((line for line in process.stderr().splitlines() if line.startswith("cupti:")), "nothing recorded")
        seen[column] = (code, process.stdout(), line)
        logs.append(f"=== cupti.{column}: exit {code}, {seconds:.1f} s\n{process.stdout()}\n{child.tail(process.stderr())}")
        print(f"cupti.{column:28} exit {code}  {seconds:.1f} s", flush=True)
        if column == "shim" and served_requests(process.stderr()) == 0:
            rows.append(["cupti", "sound", "", "", "**the shim served nothing**"])
    fault = "" if seen["plain"] == seen["shim"] else f"{seen['plain']} without the shim, {seen['shim']} with it"
    if not re.match(r"cupti: [1-9]\d* kernels", seen["plain"][2]):
        fault = f"CUPTI does not record without the shim: {seen['plain'][2]}"
    rows.append(["cupti", "sound", seen["plain"][2], seen["shim"][2], "**" + fault + "**" if fault else "same"])
    return rows, logs


def cupti_flags():
    """Compiler flags for CUPTI, or None where it is not with the toolkit."""
    root = os.path.dirname(os.path.dirname(build.find_nvcc()))
    for folder in (root, os.path.join(root, "extras", "CUPTI"), os.path.join(root, "targets", "x86_64-linux")):
        libraries = [d for d in (f"{folder}/lib64", f"{folder}/lib") if glob.glob(f"{d}/libcupti.so*")]
        if os.path.exists(f"{folder}/include/cupti.h") and libraries:
            library = sorted(glob.glob(f"{libraries[0]}/libcupti.so*"))[0]
            flags = ["-shared", "-Xcompiler", "-fPIC", f"-I{folder}/include", library]
            return flags + ["-Xlinker", f"-rpath={libraries[0]}"]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", required=True, help="libstalloc.so")
    parser.add_argument("--sanitizer", metavar="PATH", help="compute-sanitizer")
    parser.add_argument("--out", default="gpu-sanitizer")
    parser.add_argument("--timeout", type=float, default=240, metavar="SECONDS", help="for each run")
    arguments = parser.parse_args()
    launcher = find_sanitizer(arguments.sanitizer)
    if arguments.sanitizer and launcher is None:
        parser.error(f"--sanitizer: there is no {arguments.sanitizer}")
    gpu = device.why_not()
    if gpu or build.find_nvcc() is None:
        print(f"skipped: {gpu or 'needs nvcc to build its programs'}")
        return device.SKIPPED
    cupti = cupti_flags()
    if launcher is None and cupti is None:
        print("skipped: neither compute-sanitizer nor CUPTI is here")
        return device.SKIPPED
    os.makedirs(arguments.out, exist_ok=True)
    wanted = {
        "target": ("sanitizer_target.cu", "shared", ["-lineinfo"], []),
        "contract": ("contract_api.cpp", "shared", [], ["dl"]),
    }
    if cupti:
        wanted["probe"] = ("cupti_probe.cpp", "none", cupti, [])
    rows, logs, failures = [], [], []
    with tempfile.TemporaryDirectory(prefix="stalloc-gpu-") as directory:
        built = build.build_all(wanted, directory)
        failures += [f"{name} does not build: {message}" for name, (path, message) in built.items() if path is None]
        programs = {name: path for name, (path, _) in built.items()}
        if launcher and programs["target"] and programs["contract"]:
            more, said = check_sanitizer(arguments, launcher, programs, directory)
            rows, logs = rows + more, logs + said
        if cupti and programs["target"] and programs["probe"]:
            more, said = check_cupti(arguments, programs, directory)
            rows, logs = rows + more, logs + said
    left_out = [name for name, there in (("compute-sanitizer", launcher), ("CUPTI", cupti)) if not there]
    command = "python3 tests/gpu/sanitizer.py " + " ".join(sys.argv[1:])
    summary = f"`{command}` on {device.describe()}\n\n"
    summary += table.markdown_table(["tool", "program", "found without", "found with the shim", ""], rows) + "\n"
    summary += f"\nNot here: {', '.join(left_out)}.\n" if left_out else ""
    for name, content in (("tables.md", summary), ("logs.txt", "\n\n".join(logs))):
        with open(os.path.join(arguments.out, name), "w") as file:
            file.write(content)
    with open(os.path.join(arguments.out, "results.json"), "w") as file:
        json.dump({"command": command, "rows": rows, "failures": failures}, file)
    print(summary)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures or any(str(row[-1]).startswith("**") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
