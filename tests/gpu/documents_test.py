"""Checks that README.md and docs/frameworks.md show the figures of RESULTS.md beside this file."""

import fnmatch
import os
import re
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

# Rows of these documents' tables, and what they are called in RESULTS.md.
WORKLOADS = {
    "GPT-2, 24 layers": "gpt2",
    "Llama-like, recomputation": "llama_rc",
    "mixture of experts": "moe",
    "interleaved pipeline": "vpp",
    "lengths that vary": "bert_var",
    "training and evaluation by turns": "eval_mix",
    "several streams": "side_streams",
    "mean of eleven": "**mean**",
    "worst of eleven": "**worst**",
}
CASES = {
    "PyTorch, eager and compiled": "torch-eager torch-compile",
    "PyTorch, ten features": "torch",
    "PyTorch, `reduce-overhead`, graph trees, two GPUs": "torch-reduce-overhead torch-graph-trees torch-two-gpus",
    "DDP, 2 GPUs (torchrun, mpirun)": "torch-ddp-2*",
    "FSDP2, 2 GPUs": "torch-fsdp2-2",
    "pipeline, 2 GPUs": "torch-pipeline-2",
    "DDP, 4 GPUs": "torch-ddp-4",
    "FSDP2, 4 GPUs": "torch-fsdp2-4",
    "pipeline, 4 GPUs": "torch-pipeline-4",
    "NCCL's registered buffers": "nccl-register-*",
    "JAX; Flax, Optax": "jax*",
    "CuPy; Numba; cuda-python": "cupy numba cuda-python",
    "C++, runtime API (static, shared, per-thread)": "c++-*-cudart c++-per-thread*",
    "C++, driver API": "c++-libcuda",
    "C++, CUDA graphs, peers, two GPUs, copies of every shape": "c++-graph c++-peer c++-two-devices* c++-*-between",
}


def tables(*path):
    """The tables of a Markdown file: lists of rows, each a list of cells, the header first; the dashes left out."""
    with open(os.path.join(HERE, *path)) as file:
        lines = file.read().splitlines()
    found, inside = [], False
    for line in lines:
        if line.startswith("|"):
            found += [] if inside else [[]]
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        inside = line.startswith("|")
    return [[row for row in table if set("".join(row)) - set("-")] for table in found]


def table_with(column, *path):
    """The first table that has such a column; a row by the contents of that of its cells that names it."""
    return next(table for table in tables(*path) if column in table[0])


def without_notes(cell):
    return re.sub(r" \([a-z]\)", "", cell).replace("**", "")


def numbers(cell):
    """(number, how many decimals it is written with) for each."""
    return [(float(n), len(n.partition(".")[2])) for n in re.findall(r"-?\d+(?:\.\d+)?", cell)]


class Documents(unittest.TestCase):
    def assert_is(self, written, value, where):
        number, decimals = written
        self.assertLessEqual(abs(number - value), 0.5 * 10**-decimals + 1e-9, f"{where}: {number}, but it is {value}")

    def test_kinds_of_training(self):
        readme = table_with("expandable segments", "..", "..", "README.md")
        results = table_with("frag %, counters / outside", "RESULTS.md")
        rows = {row[0]: row[1:] for row in results[1:]}
        self.assertEqual(results[0][1:], ["default", "expandable", "async", "stalloc1", "stalloc2"])
        self.assertEqual([row[0] for row in readme[1:]], list(WORKLOADS))
        for name, *cells in readme[1:]:
            for cell, other in zip(cells, rows[WORKLOADS[name]], strict=True):
                (written,), (counters, _) = numbers(without_notes(cell)), numbers(other)
                self.assert_is(written, counters[0], name)

    def test_frameworks(self):
        readme = table_with("step time / without", "..", "..", "docs", "frameworks.md")
        header, *results = table_with("bytes served %", "RESULTS.md")
        self.assertEqual([without_notes(row[0]) for row in readme[1:]], list(CASES))
        for name, same, *ranges in readme[1:]:
            name, patterns = without_notes(name), CASES[without_notes(name)].split()
            rows = [dict(zip(header, r)) for r in results if any(fnmatch.fnmatch(r[1], p) for p in patterns)]
            self.assertTrue(rows, name)
            of = [[int(n) for n in row["same result"].split("/")] for row in rows]
            self.assertEqual(same, f"{sum(good for good, _ in of)} of {sum(all_ for _, all_ in of)}", name)
            for cell, column in zip(ranges, ("bytes served %", "frag %", "step time"), strict=True):
                values = sorted(float(row[column]) for row in rows if row[column] != "-")
                written = numbers(without_notes(cell))
                # All of them, or the first and the last, or the one that they all are.
                expected = values if "," in cell else values[:1] if len(written) == 1 else values[:1] + values[-1:]
                self.assertEqual(len(written), len(expected), f"{name}: {column}: {cell}, but they are {values}")
                for one, value in zip(written, expected):
                    self.assert_is(one, value, f"{name}: {column}")
                if len(written) == 1:
                    self.assert_is(written[0], values[-1], f"{name}: {column}")


if __name__ == "__main__":
    unittest.main()
