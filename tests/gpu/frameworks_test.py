"""Checks frameworks/run without a GPU: what it concludes from rounds, and how several processes' figures add up."""

import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import shim


def statistics_file(directory, name, live, reserved, planned, online, out_of_memory=0):
    total = {"peak_live_bytes": live, "peak_reserved_bytes": reserved, "out_of_memory": out_of_memory}
    total.update(planned_requests=planned, online_requests=online, planned_bytes=planned * 10, online_bytes=online * 10)
    process = {"passed_through_requests": 1, "passed_through_bytes": 30}
    path = os.path.join(directory, name)
    with open(path, "w") as file:
        json.dump({"format": "stalloc-statistics", "total": total, "process": process}, file)
    return path


class SeveralProcesses(unittest.TestCase):
    def test_counts_add_up_and_the_worst_fragmentation_counts(self):
        with tempfile.TemporaryDirectory() as directory:
            paths = [statistics_file(directory, "1", 90, 100, 8, 2, 4), statistics_file(directory, "2", 99, 100, 0, 5)]
            paths.append(statistics_file(directory, "3", 1, 5, 0, 0))  # a worker that holds next to nothing
            figures = shim.figures_of_all("stalloc[1] warning: w\n", [*paths, os.path.join(directory, "none")])
        self.assertEqual((figures["planned"], figures["online"], figures["passed_through"]), (8, 7, 3))
        self.assertAlmostEqual(figures["fragmentation"], 0.1)
        self.assertAlmostEqual(figures["planned_share"], 8 / 15)
        self.assertAlmostEqual(shim.bytes_share(figures), 150 / 240)
        self.assertEqual(figures["out_of_memory"], 4)
        self.assertEqual(figures["warnings"], ["stalloc[1] warning: w"])


class Frameworks(unittest.TestCase):
    def setUp(self):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frameworks", "run")
        loader = importlib.machinery.SourceFileLoader("frameworks_run", path)
        self.run = importlib.util.module_from_spec(importlib.util.spec_from_loader("frameworks_run", loader))
        loader.exec_module(self.run)

    def side(self, results, step=None, code=0):
        info = {"step_ms": str(step)} if step else {}
        return {"exit": code, "results": results, "info": info, "skip": None, "shim": {"warnings": []}}

    def test_every_round_counts(self):
        same, other = {"a": "1", "b": "2"}, {"a": "1", "b": "3"}
        outcome = {"native": [self.side(same, 10), self.side(same, 20)]}
        outcome["shim"] = [self.side(same, 11), self.side(same, 21)]
        self.assertEqual(self.run.judge(outcome), ("yes", "2/2", "", True))
        self.assertAlmostEqual(self.run.step_ratio(outcome), (1.1 + 1.05) / 2)
        outcome["shim"][1] = self.side(other, 21)
        self.assertEqual(self.run.judge(outcome), ("yes", "1/2", "b: 2 -> 3", False))
        outcome["shim"][1] = self.side(same, 21, code=1)
        self.assertEqual(self.run.judge(outcome), ("NO", "2/2", "exit 1", False))
        outcome["native"][1] = self.side(other, 21)
        self.assertIn("b differs from one native run to the next", self.run.judge(outcome)[2])

    def test_what_had_no_room_is_said(self):
        outcome = {"native": [self.side({"a": "1"})], "shim": [self.side({"a": "1"})]}
        outcome["shim"][0]["shim"].update(out_of_memory=3, passed_through_bytes=1 << 30)
        said = "no room for 3 requests; the driver granted 1.00 GiB"
        self.assertEqual(self.run.judge(outcome), ("yes", "1/1", said, True))
        outcome["shim"][0]["shim"]["out_of_memory"] = 0
        self.assertEqual(self.run.judge(outcome), ("yes", "1/1", "", True))

    def test_names(self):
        self.assertEqual([case.name for case in self.run.chosen("jax,c++-i*")], ["jax", "c++-ipc", "c++-ipc-unset"])
        with self.assertRaises(SystemExit):
            self.run.chosen("nothing-like-it")
        self.assertEqual(len({case.name for case in self.run.CASES}), len(self.run.CASES))


if __name__ == "__main__":
    unittest.main()
