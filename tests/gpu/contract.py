#!/usr/bin/env python3
"""The fidelity contract in columns: each row of contract_{api,life,first}.cpp and contract_order.cu, by the driver
alone, under the shim (through a shared and a static cudart) and, with --sim, over the simulated device, alone and under
the shim. Without a GPU the simulated device's columns are held against each other. With --merge nothing runs: columns
that were made on several machines are put together.

Prints the rows that differ as a Markdown table with what explains them (contract_known.py), and a count for each
program; writes results.json, tables.md and logs.txt into --out. Exit code 0: every row that differs is explained, and
every explanation is of a row that differs; 1: not; 77: no GPU and no --sim, or no nvcc.
"""

import argparse
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from contract_known import KNOWN
from harness import allocators, build, child, device, fidelity, table

PROGRAMS = {
    "api-shared": ("contract_api.cpp", "shared", [], ["dl"]),
    "api-static": ("contract_api.cpp", "static", [], ["dl"]),
    "life": ("contract_life.cpp", "none", [], ["dl"]),
    "first": ("contract_first.cpp", "none", [], ["dl"]),
    "order-shared": ("contract_order.cu", "shared", [], ["dl"]),
    "order-static": ("contract_order.cu", "static", [], ["dl"]),
}


def rows_of(text):
    return dict(line.split(" ", 2)[1:] for line in text.splitlines() if line.startswith("row ") and line.count(" ") >= 2)


def columns_of(arguments, gpu):
    """The environment of each column that can be had here."""
    native = allocators.clean_environment()
    columns = {}
    if gpu is None:
        columns[fidelity.DRIVER] = native
        columns[fidelity.SHIM] = allocators.environment_for("stalloc1", arguments.lib)
    if arguments.sim:
        folder = {"LD_LIBRARY_PATH": os.path.abspath(arguments.sim)}
        columns[fidelity.SIMULATED] = {**native, **folder}
        columns[fidelity.SIMULATED_SHIM] = allocators.environment_for("stalloc1", arguments.lib, extra=folder)
    return columns


def run(arguments, columns):
    """Builds the programs and runs each in each column. Returns (answers, failures, logs)."""
    answers, logs, failures = {}, [], []
    with tempfile.TemporaryDirectory(prefix="stalloc-gpu-") as directory:
        for name, (path, message) in build.build_all(PROGRAMS, directory).items():
            if path is None:
                failures.append(f"{name} does not build: {message}")
                continue
            for column, environment in columns.items():
                if column.startswith("simulated") and name not in ("api-shared", "life", "first"):
                    continue  # kernels do not run there, and a static cudart cannot be replaced
                title = f"{name}.{column}"
                process, code, seconds = child.run([path], environment, directory, title, arguments.timeout)
                answers[title] = rows_of(process.stdout())
                logs.append(f"=== {title}: exit {code}, {seconds:.1f} s\n{process.stdout()}\n{child.tail(process.stderr())}")
                print(f"{title:26} exit {code}  {len(answers[title])} rows  {seconds:.1f} s", flush=True)
                if code is None or code < 0:
                    failures.append(f"{title} ended with {code}: {child.tail(process.stderr(), 3)}")
    return answers, failures, logs


def merged(paths):
    """What several results.json say together; of a column that is in two, the later one's. (answers, failures, logs)."""
    answers, failures, logs = {}, [], []
    for path in paths:
        with open(path) as file:
            content = json.load(file)
        unknown = {title.split(".", 1)[1] for title in content["answers"]} - set(fidelity.COLUMNS)
        if unknown:
            raise SystemExit(f"{path}: no columns of this contract: {', '.join(sorted(unknown))}")
        answers.update(content["answers"])
        failures += content["failures"]
        logs.append(f"=== {path}: {content['command']}")
    return answers, failures, logs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", help="libstalloc.so")
    parser.add_argument("--sim", metavar="DIR", help="folder of the simulated libcuda.so.1 and libcudart.so.13")
    parser.add_argument("--merge", nargs="+", metavar="RESULTS", help="results.json files to be put together")
    parser.add_argument("--out", default="gpu-contract")
    parser.add_argument("--timeout", type=float, default=90, metavar="SECONDS")
    arguments = parser.parse_args()
    if arguments.merge:
        answers, failures, logs = merged(arguments.merge)
    else:
        if arguments.lib is None:
            parser.error("--lib is needed, or --merge")
        gpu = device.why_not()
        if gpu and not arguments.sim:
            print(f"skipped: {gpu}")
            return device.SKIPPED
        if build.find_nvcc() is None:
            print("skipped: needs nvcc to build the contract programs")
            return device.SKIPPED
        answers, failures, logs = run(arguments, columns_of(arguments, gpu))
    os.makedirs(arguments.out, exist_ok=True)
    judged, stale = fidelity.compare(answers, PROGRAMS, KNOWN)
    failures += stale
    header = ["program", "row", *fidelity.COLUMNS, "remark"]
    wide = [[*cells, remark] for cells, remark in judged]
    differing = [row for row in wide if row[-1]]
    counts = fidelity.per_program(judged)
    command = "python3 tests/gpu/contract.py " + " ".join(sys.argv[1:])
    summary = f"`{command}` on {device.describe()}\n\n"
    summary += table.markdown_table(["program", "rows", "equal", "explained", "not explained"], counts) + "\n"
    if differing:
        summary += f"\n{table.markdown_table(header, differing)}\n"
    with open(os.path.join(arguments.out, "results.json"), "w") as file:
        json.dump({"command": command, "answers": answers, "failures": failures, "differing": differing}, file)
    with open(os.path.join(arguments.out, "logs.txt"), "w") as file:
        file.write("\n\n".join(logs))
    with open(os.path.join(arguments.out, "tables.md"), "w") as file:
        file.write(f"{summary}\n## All rows\n\n{table.markdown_table(header, wide)}\n")
    print(summary)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 0 if wide and all(remark != fidelity.NOT_EXPLAINED for _, remark in judged) and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
