"""Checks what the contract and the tools beside a program conclude, without a GPU: rows, explanations, reports."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contract
import sanitizer
from harness import fidelity


class Rows(unittest.TestCase):
    def test_contract_rows(self):
        self.assertEqual(contract.rows_of("row a 1,2\nnoise\nrow b ok x\nrow c"), {"a": "1,2", "b": "ok x"})


class Fidelity(unittest.TestCase):
    """Which rows need an explanation, and which explanations are of no row any more."""

    KNOWN = [
        fidelity.Explanation("ipc_*", fidelity.BOTH_SHIMS, "pages"),
        fidelity.Explanation("pool", ("shim", "simulated", "simulated, shim"), "counts"),
        fidelity.Explanation("order_*", ("shim",), "too early"),
    ]

    def judge(self, **columns):
        names = {"simulated_shim": "simulated, shim"}
        answers = {f"p.{names.get(name, name)}": rows for name, rows in columns.items()}
        found, stale = fidelity.compare(answers, ["p"], self.KNOWN)
        return {cells[1]: remark for cells, remark in found}, stale

    def test_what_differs_is_explained_or_not(self):
        found, stale = self.judge(
            driver={"a": "1", "b": "1", "ipc_x": "0", "pool": "0", "order_x": "wrong:3"},
            shim={"a": "2", "b": "1", "ipc_x": "1", "pool": "1", "order_x": "ok", "new": "1"},
        )
        bad = fidelity.NOT_EXPLAINED
        self.assertEqual(
            found, {"a": bad, "b": "", "ipc_x": "pages", "pool": "counts", "order_x": "too early", "new": bad}
        )
        self.assertEqual(stale, [])

    def test_an_explanation_holds_for_its_columns_only(self):
        rows = {"ipc_x": "0"}
        found, _ = self.judge(driver=rows, shim={"ipc_x": "1"}, simulated={"ipc_x": "1"})
        self.assertEqual(found, {"ipc_x": fidelity.NOT_EXPLAINED})

    def test_wrong_is_never_right_under_the_shim(self):
        found, _ = self.judge(driver={"order_x": "wrong:3"}, shim={"order_x": "wrong:3"})
        self.assertEqual(found, {"order_x": fidelity.NOT_EXPLAINED})

    def test_the_shim_answers_alike_over_both(self):
        columns = {"driver": {"ipc_x": "0"}, "simulated": {"ipc_x": "0"}, "simulated_shim": {"ipc_x": "2"}}
        self.assertEqual(self.judge(shim={"ipc_x": "2"}, **columns)[0], {"ipc_x": "pages"})
        self.assertEqual(self.judge(shim={"ipc_x": "1"}, **columns)[0], {"ipc_x": fidelity.NOT_EXPLAINED})

    def test_without_a_driver_the_simulated_device_stands_for_it(self):
        simulated = {"a": "1", "ipc_x": "0", "pool": "1"}
        found, stale = self.judge(simulated=simulated, simulated_shim={"a": "2", "ipc_x": "1", "pool": "1"})
        self.assertEqual(found, {"a": fidelity.NOT_EXPLAINED, "ipc_x": "pages", "pool": ""})
        self.assertEqual(stale, [], "of the pool's row nothing can be said")

    def test_an_explanation_without_a_difference_is_stale(self):
        _, stale = self.judge(driver={"ipc_x": "0", "ipc_y": "0"}, shim={"ipc_x": "0", "ipc_y": "0"})
        self.assertEqual(len(stale), 1)
        self.assertIn("ipc_*", stale[0])
        _, stale = self.judge(driver={"ipc_x": "0", "ipc_y": "0"}, shim={"ipc_x": "1", "ipc_y": "0"})
        self.assertEqual(stale, [])
        _, stale = self.judge(driver={"pool": "0"}, shim={"pool": "1"}, simulated={"pool": "0"})
        self.assertIn("the column simulated,", stale[0])

    def test_counts(self):
        answers = {"p.driver": {"a": "1", "ipc_x": "0"}, "p.shim": {"a": "2", "ipc_x": "1"}}
        answers.update({"q.driver": {"b": "1"}, "q.shim": {"b": "1"}})
        found, _ = fidelity.compare(answers, ["p", "q"], self.KNOWN)
        counts = [["p", 2, 0, 1, 1], ["q", 1, 1, 0, 0], ["all", 3, 1, 1, 1]]
        self.assertEqual(sorted(fidelity.per_program(found)), sorted(counts))

    def test_columns_of_several_machines_are_put_together(self):
        with tempfile.TemporaryDirectory() as directory:
            paths = []
            for name, column in (("gpu", "driver"), ("here", "simulated"), ("old", "native")):
                paths.append(os.path.join(directory, name))
                with open(paths[-1], "w") as file:
                    json.dump({"command": name, "answers": {f"p.{column}": {"a": "1"}}, "failures": []}, file)
            answers, _, _ = contract.merged(paths[:2])
            self.assertEqual(sorted(answers), ["p.driver", "p.simulated"])
            with self.assertRaisesRegex(SystemExit, "old: no columns of this contract: native"):
                contract.merged(paths)


class Sanitizer(unittest.TestCase):
    """What is read of compute-sanitizer's report, and what is made of two runs."""

    REPORT = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at Fill(float *, int, float)+0x90 in target.cu:20
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x7f0001234fa0 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f0001234000 of size 4,000 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
========= ERROR SUMMARY: 1 error
"""

    def run_of(self, report, **changes):
        found = {"exit": 0, "output": "sum 1", "report": report, "said": 0, "served": 0}
        found.update(errors=sanitizer.errors(report), findings=sanitizer.findings(report))
        return {**found, **changes}

    def test_reads_a_report(self):
        self.assertEqual(sanitizer.errors(self.REPORT), 1)
        self.assertIsNone(sanitizer.errors("========= Error: Target application terminated"))
        self.assertEqual(sanitizer.errors("========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)"), 2)
        found = sanitizer.findings(self.REPORT)
        self.assertEqual(len(found), 4)
        self.assertEqual(found[2], "and is 1 bytes after the nearest allocation at ADDRESS of size 4,000 bytes")
        race = "=========     and Read access at Race(float *)+0x100 in t.cu:51 [{} hazards]"
        self.assertEqual(sanitizer.findings(race.format(508)), sanitizer.findings(race.format(3)))
        far = "=========     and is {} bytes before the nearest allocation at 0x7c00 of size 1,024 bytes"
        self.assertEqual(sanitizer.findings(far.format("124,310,666")), sanitizer.findings(far.format("137,179,965")))

    def test_judges(self):
        plain, served = self.run_of(self.REPORT), self.run_of(self.REPORT.replace("0x7f0001234", "0x7e0009999"), said=1)
        self.assertEqual(sanitizer.judge(plain, served, True), "")
        self.assertIn("sound program", sanitizer.judge(plain, served, False))
        self.assertIn("0 times", sanitizer.judge(plain, {**served, "said": 0}, True))
        self.assertIn("served 5", sanitizer.judge(plain, {**served, "served": 5}, True))
        self.assertIn("output", sanitizer.judge(plain, {**served, "output": "sum 2"}, True))
        clean = self.run_of("========= ERROR SUMMARY: 0 errors", said=1)
        self.assertIn("findings", sanitizer.judge(plain, clean, True))
        self.assertIn("does not report the fault", sanitizer.judge(clean, clean, True))
        self.assertIn("does not come to its end", sanitizer.judge(self.run_of("========= Error"), clean, True))


if __name__ == "__main__":
    unittest.main()
