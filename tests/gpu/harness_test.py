"""Checks the parts of the GPU harnesses that can be wrong without a GPU: what they read, compare and conclude."""

import argparse
import contextlib
import io
import json
import os
import pathlib
import random
import re
import statistics
import sys
import tempfile
import unittest
from unittest import mock
from xml.etree import ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import plots
import run
from harness import allocators, compare, device, options, report, shim, svg


class SummaryLine(unittest.TestCase):
    def test_reads_figures_and_rank(self):
        text = (
            "noise\nstalloc[123 r1] peak live 14.5 GiB, peak reserved 14.75 GiB, fragmentation 1.69 %; requests: "
            "120331 (97.4 %) planned, 3201 online, 17 passed through\nstalloc[123 r1] warning: something\n"
        )
        (line,) = shim.summary_lines(text)
        self.assertEqual(line["who"], "123 r1")
        self.assertEqual(line["peak_live_bytes"], int(14.5 * 2**30))
        self.assertEqual(line["peak_reserved_bytes"], int(14.75 * 2**30))
        self.assertAlmostEqual(line["fragmentation"], 0.0169)
        self.assertEqual((line["planned"], line["online"], line["passed_through"]), (120331, 3201, 17))
        self.assertEqual(shim.other_lines(text), ["stalloc[123 r1] warning: something"])

    def test_nothing_served_and_several_devices(self):
        text = (
            "stalloc[9] peak live 0 B, peak reserved 0 B, fragmentation 0.00 % on 2 devices; "
            "requests: 0 planned, 0 online, 3 passed through; out of memory 4 times"
        )
        (line,) = shim.summary_lines(text)
        self.assertEqual((line["planned"], line["online"], line["passed_through"]), (0, 0, 3))

    def test_silence_is_no_figure(self):
        figures = shim.figures_of("nothing here", None)
        self.assertIsNone(figures.get("fragmentation"))
        self.assertIsNone(figures["planned_share"])


class Statistics(unittest.TestCase):
    def read(self, content):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(content)
            file.flush()
            return shim.figures_of("", file.name)

    def test_figures_of_the_format(self):
        total = {"peak_live_bytes": 990, "peak_reserved_bytes": 1000, "planned_requests": 36, "online_requests": 64}
        total.update(planned_bytes=60, online_bytes=30, map_calls=7)
        process = {"passed_through_requests": 2, "passed_through_bytes": 10}
        figures = self.read(
            json.dumps({"format": "stalloc-statistics", "version": 1, "total": total, "process": process})
        )
        self.assertAlmostEqual(figures["fragmentation"], 0.01)
        self.assertAlmostEqual(figures["planned_share"], 0.36)
        self.assertEqual((figures["passed_through"], figures["map_calls"]), (2, 7))
        self.assertAlmostEqual(shim.bytes_share(figures), 0.9)

    def test_share_beyond_the_beginning(self):
        share = shim.share_of_later_requests({"planned": 95, "online": 65}, {"planned": 5, "online": 55})
        self.assertAlmostEqual(share, 0.9)
        self.assertIsNone(shim.share_of_later_requests({"planned": 95}, {"planned": 5, "online": 55}))

    def test_mapping_beyond_the_beginning(self):
        whole, beginning = {"map_calls": 130, "map_us": 900}, {"map_calls": 60, "map_us": 200}
        self.assertEqual(shim.mapping_of_later_steps(whole, beginning, 35), (2, 20))
        self.assertIsNone(shim.mapping_of_later_steps(whole, {}, 35))

    def test_a_broken_file_is_no_figure(self):
        self.assertIsNone(self.read("{").get("peak_live_bytes"))


def result(allocator, losses, steps, checksum="c", outside=None):
    record = {"losses": [float(x).hex() for x in losses], "step_ms": steps, "warmup": 1, "oom": False}
    record.update(checksum=checksum, peak_allocated_bytes=900, peak_reserved_bytes=1000)
    record.update(driver_used_bytes=[1500] * len(steps), reserved_bytes=[1000] * len(steps))
    return {"allocator": allocator, "record": record, "exit": 0, "outside_peak_bytes": outside}


class Compare(unittest.TestCase):
    def test_mapping_is_that_of_the_later_iterations(self):
        entries = [{"map_calls": calls, "map_us": 10 * calls} for calls in (1700, 0, 90, 2, 4, 0)]
        shown = {"shim": {"raw": {"devices": [{"last_iterations": entries}]}}}
        self.assertEqual(compare.mapping(shown), (2, 20))
        shown["shim"]["mapping_after"] = (7, 8)  # what was asked for by --after
        self.assertEqual(compare.mapping(shown), (7, 8))
        self.assertEqual(compare.mapping({}), (None, None))

    def test_equal_bits_ratio_and_outside(self):
        base, other = result("default", [1, 2, 3], [9, 10, 20]), result("async", [1, 2, 3], [9, 11, 22], outside=1700)
        compare.compare(other, base)
        out = other["compared"]
        self.assertTrue(out["same_bits"])
        self.assertAlmostEqual(out["step_ratio"], 1.1)
        self.assertEqual(out["outside_bytes"], 1200)  # 500 of the 1500 used are not the allocator's
        self.assertAlmostEqual(out["outside_fragmentation"], 0.25)

    def test_outside_is_read_beside_the_same_backend(self):
        base, peer = result("default", [1, 2], [9, 10]), result("async", [1, 2], [9, 10])
        peer["record"]["driver_used_bytes"] = [1570] * 2  # 70 more than default's that are not its reserve
        ours = result("stalloc1", [1, 2], [9, 10], outside=1610)
        # The shim serves 60 that a library asked for: they are live and reserved here, and beside both natively.
        ours["record"].update(peak_allocated_bytes=960, reserved_bytes=[1100] * 2, driver_used_bytes=[1608] * 2)
        compare.compare(ours, base, peer)
        out = ours["compared"]
        self.assertEqual(out["outside_bytes"], 1610 - 570 + 60)
        self.assertAlmostEqual(out["outside_fragmentation"], 1 - 960 / 1100)
        self.assertEqual(out["fixed_bytes"], (1608 - 1100) + 60 - 500)

    def test_one_different_loss(self):
        other = result("async", [1, 2.5, 3], [9, 11, 22])
        compare.compare(other, result("default", [1, 2, 3], [9, 10, 20]))
        self.assertFalse(other["compared"]["same_bits"])
        self.assertEqual(other["compared"]["first_difference"], 1)

    def test_different_parameters_or_no_number_are_not_the_same(self):
        base = result("default", [1, 2], [9, 10])
        other = result("async", [1, 2], [9, 10], checksum="d")
        compare.compare(other, base)
        self.assertFalse(other["compared"]["same_bits"])
        nan = float("nan")
        other = result("async", [1, nan], [9, 10])
        compare.compare(other, result("default", [1, nan], [9, 10]))
        self.assertFalse(other["compared"]["same_bits"])


class Noise(unittest.TestCase):
    def test_the_interval_holds_the_median_as_often_as_it_says(self):
        draw = random.Random(1)
        for n in (6, 15, 32):
            held = 0
            for _ in range(4000):
                low, high = compare.median_interval([draw.expovariate(1.0) for _ in range(n)])
                held += low <= 0.6931 <= high
            self.assertGreaterEqual(held / 4000, 0.945)
            self.assertLess(held / 4000, 0.985)

    def test_too_few_values_have_no_interval(self):
        self.assertIsNone(compare.median_interval([1, 2, 3, 4, 5]))

    def round(self, times, repeat=0):
        """One round of a workload: {allocator: step times}; equal losses."""
        made = []
        for name, steps in times.items():
            made.append(result(name, range(1, len(steps) + 1), steps))
            made[-1].update(workload="w", repeat=repeat)
        return made

    def test_a_control_run_sets_the_noise(self):
        times = {"default": [10] * 20, "stalloc1": [10.4] * 20, "default-again": [10.5] * 20}
        results = self.round(times)
        compare.compare_all(results)
        found = compare.summaries(results)["w"]
        self.assertAlmostEqual(found["stalloc1"]["step_ratio"], 1.04)
        self.assertAlmostEqual(found["stalloc1"]["noise"], 0.05)
        self.assertEqual(report.verdict(found["stalloc1"]), "")
        results = self.round({**times, "default-again": [10.1] * 20})
        compare.compare_all(results)
        self.assertEqual(report.verdict(compare.summaries(results)["w"]["stalloc1"]), " (!)")
        self.assertIn("slower", " ".join(report.shortfalls(compare.summaries(results))))

    def test_merged_calls_are_further_rounds(self):
        calls = [self.round({"default": [10] * 9, "async": [value] * 9}) for value in (11, 12, 13)]
        merged = compare.merge(calls)
        self.assertEqual([r["repeat"] for r in merged], [0, 0, 1, 1, 2, 2])
        compare.compare_all(merged)
        found = compare.summaries(merged)["w"]["async"]
        self.assertEqual(found["rounds"], 3)
        self.assertAlmostEqual(found["step_ratio"], 1.2)
        self.assertAlmostEqual(statistics.median(found["step_ratios"]), 1.2)

    def test_memory_is_the_worst_round(self):
        rounds = [self.round({"default": [10] * 9}), self.round({"default": [10] * 9})]
        rounds[1][0]["record"]["peak_allocated_bytes"] = 800
        merged = compare.merge(rounds)
        compare.compare_all(merged)
        self.assertAlmostEqual(compare.summaries(merged)["w"]["default"]["fragmentation"], 0.2)


class Environment(unittest.TestCase):
    def test_users_choices_are_removed_and_the_preload_comes_first(self):
        users = {"PYTORCH_ALLOC_CONF": "x", "STALLOC_LOG": "debug", "LD_PRELOAD": "/other.so"}
        with mock.patch.dict(os.environ, users):
            ours = allocators.environment_for("stalloc1", "/lib/libstalloc.so", plan="/p", stats="/s")
            native = allocators.environment_for("expandable")
        self.assertNotIn("PYTORCH_ALLOC_CONF", ours)
        self.assertNotIn("STALLOC_LOG", ours)
        self.assertEqual(ours["LD_PRELOAD"], "/lib/libstalloc.so:/other.so")
        self.assertEqual(native["PYTORCH_ALLOC_CONF"], "expandable_segments:True")
        self.assertNotIn("STALLOC_PLAN", native)


class Options(unittest.TestCase):
    def parse(self, *words):
        parser = argparse.ArgumentParser()
        options.add(parser, "out", ("default", "stalloc1"), steps=3)
        return parser.parse_args(words)

    def test_settings_reach_the_stalloc_runs_only(self):
        arguments = self.parse("--env", "STALLOC_LOG=info", "--env", "STALLOC_PLAN_CACHE=a=b")
        self.assertEqual((arguments.steps, arguments.allocators), (3, ["default", "stalloc1"]))
        given = {"STALLOC_LOG": "info", "STALLOC_PLAN_CACHE": "a=b"}
        self.assertEqual(options.settings(arguments, "stalloc1"), given)
        self.assertEqual(options.settings(arguments, "default"), {})

    def test_a_library_is_needed_for_stalloc_only(self):
        self.assertIsNone(options.lacks_library(self.parse("--allocators", "default,async")))
        self.assertIn("--lib", options.lacks_library(self.parse()))
        self.assertIn("--lib", options.lacks_library(self.parse("--lib", "/nonexistent.so")))
        self.assertIsNone(options.lacks_library(self.parse("--lib", __file__)))

    def test_a_record_that_is_cut_off_is_none(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "record.json")
            self.assertIsNone(options.record(path))
            for text, expected in (('{"losses": [', None), ('{"losses": []}', {"losses": []})):
                with open(path, "w") as file:
                    file.write(text)
                self.assertEqual(options.record(path), expected)


class Workloads(unittest.TestCase):
    def parse(self, *arguments):
        with mock.patch.object(sys, "argv", ["run.py", *arguments]):
            return run.parse().workloads

    def test_names_and_groups(self):
        self.assertEqual(self.parse(), list(run.KINDS))
        self.assertEqual(self.parse("--workloads", "four,unseen,gpt2"), [*run.STATIC, *run.UNSEEN])
        self.assertEqual(self.parse("--workloads", "gan,gpt2"), ["gan", "gpt2"])

    def test_sizes_follow_a_name(self):
        spec = "moe:layers=12:experts=16"
        self.assertEqual(self.parse("--workloads", f"{spec},moe"), [spec, "moe"])
        self.assertEqual(run.program(spec)[2:], ["--size=layers=12", "--size=experts=16"])
        self.assertEqual(run.program("moe"), run.program(spec)[:2])

    def test_after_the_last_step_there_is_nothing_to_measure(self):
        for after in ("40", "-1"):
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                self.parse("--after", after)

    def test_a_name_that_is_none_ends_with_a_message(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
            self.parse("--workloads", "gpt2,no_such")
        self.assertIn("unknown: no_such;", said.getvalue())

    def test_every_script_is_listed_once_and_runs_under_its_own_name(self):
        scripts = {}
        for path in pathlib.Path(run.HERE, "scripts").glob("*.py"):
            named = re.search(r'sys\.exit\(main\("(\w+)"', path.read_text())
            if named:
                scripts[path.stem] = named.group(1)
        self.assertEqual(sorted(scripts), sorted(run.KINDS + run.UNSEEN))
        self.assertEqual(scripts, {name: name for name in scripts})


class Plots(unittest.TestCase):
    """Every drawing is well-formed XML with a mark for every figure."""

    def marks(self, text, tag):
        return len(ElementTree.fromstring(text).findall(f"{{http://www.w3.org/2000/svg}}{tag}"))

    def test_runs(self):
        results = []
        for name, times in (("default", [10] * 9), ("async", [11] * 9), ("stalloc2", [10] * 9)):
            results.append(result(name, range(9), times, outside=1700))
            results[-1].update(workload="w & v", repeat=0)
        results[-1]["shim"] = {"fragmentation": 0.001, "mapping_after": (3, 40)}
        drawn = plots.drawings([{"results": results}])
        self.assertEqual(sorted(drawn), ["fragmentation.svg", "mapping.svg", "step_time.svg"])
        self.assertEqual(self.marks(drawn["fragmentation.svg"], "circle"), 3 + 1 + 6)  # legend, "hollow", two of each
        self.assertEqual(self.marks(drawn["step_time.svg"], "circle"), 2 + 2)
        self.assertEqual(self.marks(drawn["mapping.svg"], "circle"), 2 + 1)  # stalloc1 is in the legend only

    def test_throughput_and_hot_path(self):
        row = {"case": "gpt2@24", "free_bytes": 24 * 2**30, "words": "batch 9", "rate": 90.0}
        rows = [{**row, "allocator": "default"}, {**row, "allocator": "stalloc1", "rate": 99.0}]
        drawn = plots.drawings(
            [{"results": rows}, {"nanoseconds": {"pair": {"native": [500, 510], "stalloc2": [100]}}}]
        )
        self.assertIn("1.100", drawn["what_it_buys.svg"])
        self.assertEqual(self.marks(drawn["what_it_buys.svg"], "rect"), 1 + 2)
        self.assertEqual(self.marks(drawn["hot_path.svg"], "rect"), 1 + 2)

    def test_axes_hold_their_values(self):
        for values in ([0.998, 1.03], [1.0], [0.2, 7.9], [1.0, 1.0001]):
            axis = svg.linear_axis(values, "")
            self.assertLessEqual(axis.low, min(values))
            self.assertGreaterEqual(axis.high, max(values))
            self.assertLess(axis.low, axis.high)
            self.assertLessEqual(len(axis.ticks), 9)


class Device(unittest.TestCase):
    def test_missing_package_is_a_reason(self):
        self.assertIn("no_such_package", device.why_not(devices=0, modules=("no_such_package",)))


if __name__ == "__main__":
    unittest.main()
