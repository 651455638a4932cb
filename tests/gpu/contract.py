#!/usr/bin/env python3
"""The fidelity contract in columns: each row of contract_api.cpp and contract_order.cu, natively, under the shim (through
a shared and a static cudart) and, with --sim, over the simulated device.

Writes results.json, tables.md and logs.txt into --out. Exit code 0: all columns agree; 1: not; 77: no GPU or no nvcc.
"""

import argparse
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import allocators, build, child, device, table

PROGRAMS = {
    "api-shared": ("contract_api.cpp", "shared", [], ["dl"]),
    "api-static": ("contract_api.cpp", "static", [], ["dl"]),
    "order-shared": ("contract_order.cu", "shared", [], []),
    "order-static": ("contract_order.cu", "static", [], []),
}


def rows_of(text):
    return dict(line.split(" ", 2)[1:] for line in text.splitlines() if line.startswith("row ") and line.count(" ") >= 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lib", required=True, help="libstalloc.so")
    parser.add_argument("--sim", metavar="DIR", help="folder of the simulated libcuda.so.1 and libcudart.so.13")
    parser.add_argument("--out", default="gpu-contract")
    parser.add_argument("--timeout", type=float, default=90, metavar="SECONDS")
    arguments = parser.parse_args()
    gpu = device.why_not()
    if gpu and not arguments.sim:
        print(f"skipped: {gpu}")
        return device.SKIPPED
    if build.find_nvcc() is None:
        print("skipped: needs nvcc to build the contract programs")
        return device.SKIPPED
    os.makedirs(arguments.out, exist_ok=True)
    native = allocators.clean_environment()
    columns = {} if gpu else {"native": native, "shim": allocators.environment_for("stalloc1", arguments.lib)}
    if arguments.sim:
        columns["simulated"] = {**native, "LD_LIBRARY_PATH": os.path.abspath(arguments.sim)}
    answers, logs, failures = {}, [], []
    with tempfile.TemporaryDirectory(prefix="stalloc-gpu-") as directory:
        for name, (path, message) in build.build_all(PROGRAMS, directory).items():
            if path is None:
                failures.append(f"{name} does not build: {message}")
                continue
            for column, environment in columns.items():
                if column == "simulated" and name != "api-shared":
                    continue  # kernels do not run there, and a static cudart cannot be replaced
                run = f"{name}.{column}"
                process, code, seconds = child.run([path], environment, directory, run, arguments.timeout)
                answers[run] = rows_of(process.stdout())
                logs.append(f"=== {run}: exit {code}, {seconds:.1f} s\n{process.stdout()}\n{child.tail(process.stderr())}")
                print(f"{run:24} exit {code}  {len(answers[run])} rows  {seconds:.1f} s", flush=True)
                if code is None or code < 0:
                    failures.append(f"{run} ended with {code}: {child.tail(process.stderr(), 3)}")
    wide, differing = [], []
    for name in PROGRAMS:
        mine = {column: answers[f"{name}.{column}"] for column in columns if f"{name}.{column}" in answers}
        reference = mine.get("native") or next(iter(mine.values()), {})
        for row in dict.fromkeys(key for rows in mine.values() for key in rows):
            cells = [mine[column].get(row, "-") if column in mine else "" for column in columns]
            same = all(rows.get(row) == reference.get(row) for rows in mine.values())
            bad = any("wrong" in cell for cell in cells[1:])
            wide.append([name, row, *cells, "" if same and not bad else "DIFFERS"])
            if not same or bad:
                differing.append(wide[-1])
    header = ["program", "row", *columns, ""]
    command = "python3 tests/gpu/contract.py " + " ".join(sys.argv[1:])
    with open(os.path.join(arguments.out, "results.json"), "w") as file:
        json.dump({"command": command, "answers": answers, "failures": failures}, file)
    with open(os.path.join(arguments.out, "logs.txt"), "w") as file:
        file.write("\n\n".join(logs))
    with open(os.path.join(arguments.out, "tables.md"), "w") as file:
        file.write(f"`{command}`\n\n{table.markdown_table(header, wide)}\n")
    print(f"{len(wide)} rows, {len(differing)} differ")
    if differing:
        print(table.text_table(header, differing))
    for failure in failures:
        print(f"FAILED: {failure}")
    return 0 if wide and not differing and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
