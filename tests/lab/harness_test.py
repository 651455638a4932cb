"""The laboratory's own judgements: which figures are beyond a bound, and where a device and the laboratory differ."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import types
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
from catalogue import PROGRAMS


def load(name):
    loader = importlib.machinery.SourceFileLoader("lab_" + name, str(FOLDER / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


RUN, FIDELITY = load("run"), load("fidelity")
MIB, GIB = 1 << 20, 1 << 30


def variant(first, again, other):
    """Of 10 GiB live: what the first and the second run and the one after another variant hold."""
    rows = {name: {"peak_live_bytes": 10 * GIB, "peak_reserved_bytes": held}
            for name, held in (("stalloc", first), ("stalloc-2", again))}
    return {**rows, "others": {"b": (10 * GIB, other)}}


class Bounds(unittest.TestCase):
    def test_what_is_within_misses_nothing(self):
        self.assertEqual(RUN.misses(variant(10 * GIB + 79 * MIB, 10 * GIB, 10 * GIB + 95 * MIB)), [])

    def test_each_run_has_its_bound(self):
        good = 10 * GIB
        for figures, word in (((good + GIB, good, good), "stalloc wastes"), ((good, good + GIB, good), "stalloc-2 wastes"),
                              ((good, good, good + GIB), 'after "b"')):
            missed = RUN.misses(variant(*figures))
            self.assertTrue(any(word in text for text in missed), (word, missed))
            self.assertIn("1024 MiB", missed[0])


class Catalogue(unittest.TestCase):
    def test_every_program_is_there(self):
        self.assertEqual(len({program.name for program in PROGRAMS}), len(PROGRAMS))
        for program in PROGRAMS:
            self.assertTrue((FOLDER / "programs" / program.script).is_file(), program.script)
        used = {program.script for program in PROGRAMS}
        self.assertGreaterEqual(sum(program.subset for program in PROGRAMS), 2)
        self.assertGreaterEqual(len([v for p in PROGRAMS if p.on_gpu for v in p.variants]), 10)
        self.assertIn("fsdp2.py", used)


class Compare(unittest.TestCase):
    def compare(self, simulated):
        def content(live, reserved):
            row = {"program": "p", "variant": "v", "allocator": "default", "live_bytes": live, "reserved_bytes": reserved}
            return json.dumps({"device": "card", "rows": [row]})

        with tempfile.TemporaryDirectory() as folder:
            gpu, lab = pathlib.Path(folder, "gpu.json"), pathlib.Path(folder, "lab.json")
            gpu.write_text(content(10 * GIB, 20 * GIB))
            lab.write_text(content(*simulated))
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                code = FIDELITY.compare(types.SimpleNamespace(gpu=gpu, lab=lab))
        return code, printed.getvalue()

    def test_near_enough(self):
        code, text = self.compare((int(10.04 * GIB), int(20.2 * GIB)))
        self.assertEqual(code, 0, text)
        self.assertIn("10.040", text)

    def test_live_or_fragmentation_beyond(self):
        for simulated, word in (((int(10.1 * GIB), int(20.2 * GIB)), "| live |"),
                                ((10 * GIB, 21 * GIB), "| fragmentation |")):
            code, text = self.compare(simulated)
            self.assertEqual(code, 1)
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main()
