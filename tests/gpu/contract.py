#!/usr/bin/env python3
"""The fidelity contract in columns: each row of contract_api.cpp, contract_life.cpp and contract_order.cu, by the driver
alone, under the shim (through a shared and a static cudart) and, with --sim, over the simulated device, alone and under the shim. Without
a GPU the simulated device's columns are held against each other.

Prints the rows that differ as a Markdown table, with what is known of them, and writes results.json, tables.md and
logs.txt into --out. Exit code 0: no row differs but those that are known; 1: not; 77: no GPU and no --sim, or no nvcc.
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
    "life": ("contract_life.cpp", "none", [], ["dl"]),
    "order-shared": ("contract_order.cu", "shared", [], []),
    "order-static": ("contract_order.cu", "static", [], []),
}


# Rows that are known to differ under the shim, and why. Anything else that differs is a fault.
_PAGES = "said of the mapped pages that the block lies in, which are no context's and no pool's"
KNOWN = {
    "ipc_handle_of_malloc": "a block lies in pages that others share: STALLOC_IPC=on leaves such memory to the driver",
    "large_aligned_2MiB": "blocks of 2 MiB and more lie where there is room, on 512 bytes; CUDA promises 256",
    "none_current_free": "served memory can be freed without a context",
    "none_current_freed": "freed already, see the row before",
    "free_by_thread_without_context": "served memory can be freed without a context",
    "destroyed_current_context": "served memory can be freed without a context",
    "destroyed_context_memory": "blocks of a context that was not the device's only one stay until they are freed",
    "attribute_legacy_ipc": _PAGES,
    "attribute_context": _PAGES,
    "attribute_handle_types": _PAGES,
    "attribute_rdma": _PAGES,
    "attribute_pool": _PAGES,
    "retained_handle": _PAGES,
    "attribute_sync": "the driver does not take SYNC_MEMOPS for mapped memory; the program gets its error",
    "pool_used_rises": "the driver counts less reserved than used at that moment",
    "order_synchronous_free_of_async": "the driver hands the memory out too early, the shim does not",
}


def known(row):
    return next((why for name, why in KNOWN.items() if row == name or row.startswith(name + "_")), "")


def differences(answers, programs, columns):
    """([program, row, answer in each column], remark) of each row; the remark is empty where all columns agree."""
    found = []
    for name in programs:
        mine = {column: answers[f"{name}.{column}"] for column in columns if f"{name}.{column}" in answers}
        reference = mine.get("driver") or next(iter(mine.values()), {})
        for row in dict.fromkeys(key for rows in mine.values() for key in rows):
            cells = [mine[column].get(row, "-") if column in mine else "" for column in columns]
            same = all(rows.get(row) == reference.get(row) for rows in mine.values())
            bad = any("wrong" in cell for cell in cells)
            found.append(([name, row, *cells], "" if same and not bad else known(row) or "**not known**"))
    return found


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
    columns = {} if gpu else {"driver": native, "shim": allocators.environment_for("stalloc1", arguments.lib)}
    if arguments.sim:
        folder = {"LD_LIBRARY_PATH": os.path.abspath(arguments.sim)}
        columns["simulated"] = {**native, **folder}
        columns["simulated, shim"] = allocators.environment_for("stalloc1", arguments.lib, extra=folder)
    answers, logs, failures = {}, [], []
    with tempfile.TemporaryDirectory(prefix="stalloc-gpu-") as directory:
        for name, (path, message) in build.build_all(PROGRAMS, directory).items():
            if path is None:
                failures.append(f"{name} does not build: {message}")
                continue
            for column, environment in columns.items():
                if column.startswith("simulated") and name not in ("api-shared", "life"):
                    continue  # kernels do not run there, and a static cudart cannot be replaced
                run = f"{name}.{column}"
                process, code, seconds = child.run([path], environment, directory, run, arguments.timeout)
                answers[run] = rows_of(process.stdout())
                logs.append(f"=== {run}: exit {code}, {seconds:.1f} s\n{process.stdout()}\n{child.tail(process.stderr())}")
                print(f"{run:24} exit {code}  {len(answers[run])} rows  {seconds:.1f} s", flush=True)
                if code is None or code < 0:
                    failures.append(f"{run} ended with {code}: {child.tail(process.stderr(), 3)}")
    judged = differences(answers, PROGRAMS, columns)
    header = ["program", "row", *columns, "remark"]
    wide = [[*cells, remark] for cells, remark in judged]
    differing = [row for row in wide if row[-1]]
    command = "python3 tests/gpu/contract.py " + " ".join(sys.argv[1:])
    summary = f"`{command}` on {device.describe()}\n\n{len(wide)} rows, of which {len(differing)} differ.\n"
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
    return 0 if wide and all(remark != "**not known**" for _, remark in judged) and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
