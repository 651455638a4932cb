"""Checks how the GPU harnesses run processes, without a GPU: gates, turns, what is asked between two steps, and which
start together. What they read and conclude is harness_test.py's."""

import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import microbench
import run
from harness import child
from harness.turns import Stopped, take_turns


class Children(unittest.TestCase):
    def test_gate_exit_code_and_output(self):
        code = "import sys; print('ready', flush=True); print(sys.stdin.readline(), end='')\n"
        code += "print('err', file=sys.stderr); sys.exit(5)"
        with tempfile.TemporaryDirectory() as directory:
            process = child.Child([sys.executable, "-c", code], dict(os.environ), directory, "x", gated=True)
            self.assertTrue(process.wait_until_ready(30))
            self.assertIsNone(process.process.poll())
            process.release(["--out", "a path"])
            self.assertEqual(process.wait(30)[0], 5)
            self.assertEqual((process.stdout(), process.stderr()), ("ready\n--out 'a path'\n", "err\n"))

    def test_a_child_that_dies_before_its_gate_is_not_ready(self):
        with tempfile.TemporaryDirectory() as directory:
            process = child.Child([sys.executable, "-c", "raise SystemExit(3)"], dict(os.environ), directory, "x", True)
            self.assertFalse(process.wait_until_ready(30))
            process.release()
            self.assertEqual(process.wait(30)[0], 3)

    TURNS = """
import os, sys
where = int(os.environ['CHILD_TURNS_FD'])
print('ready', flush=True)
sys.stdin.readline()
for turn in range(int(sys.argv[1])):
    os.write(where, b'.')
    if not sys.stdin.readline():
        sys.exit(9)
    print(os.environ['NAME'] + str(turn), file=open(os.environ['SAID'], 'a'))
"""

    def in_turns(self, directory, turns, rounds):
        """What children said whose programs take `turns` turns each, when they were given `rounds` and their end."""
        said = os.path.join(directory, "said")
        children = []
        for name, count in turns.items():
            environment = {**os.environ, "NAME": name, "SAID": said}
            command = [sys.executable, "-c", self.TURNS, str(count)]
            children.append(child.Child(command, environment, directory, name, gated=True, turns=True))
        try:
            for process in children:
                self.assertTrue(process.wait_until_ready(30))
                process.release()
            take_turns(children, rounds, 30)
            with open(said) as file:
                return file.read().split()
        finally:
            for process in children:
                process.dismiss()

    def test_turns_change_nothing_of_a_childs_command(self):
        """Which is what tells one configuration of a program from another."""
        with tempfile.TemporaryDirectory() as directory:
            command = [sys.executable, "-c", "import sys; print('ready', sys.argv, flush=True)", "--steps", "3"]
            process = child.Child(command, dict(os.environ), directory, "x", gated=True, turns=True)
            self.assertTrue(process.wait_until_ready(30))
            process.release()
            process.wait(30)
            self.assertEqual(process.stdout(), "ready ['-c', '--steps', '3']\n")

    TORCH = """
class device:
    def __init__(self, name): pass
uint8 = None
def empty(bytes_, dtype, device): return bytes_
class cuda:
    synchronize = staticmethod(lambda: None)
"""

    def test_microbench_s_rows_of_torch_come_by_turns(self):
        with tempfile.TemporaryDirectory() as directory:
            pathlib.Path(directory, "torch.py").write_text(self.TORCH)
            environment = {**os.environ, "PYTHONPATH": directory}
            command = [sys.executable, "-c", microbench.TORCH]
            runs = [(f"torch.{column}", column, command, environment) for column in ("default", "stalloc1")]
            for _, process, code in microbench.one_round(runs, directory, 0, 60):
                self.assertEqual(code, 0, process.stderr())
                rows = [line for line in process.stdout().splitlines() if line.startswith("row torch_empty_")]
                self.assertEqual(len(rows), len(microbench.SIZES) * (microbench.BLOCKS - 1))

    def test_turns_are_taken_one_at_a_time_and_nobody_is_always_first(self):
        with tempfile.TemporaryDirectory() as directory:
            said = self.in_turns(directory, {"a": 4, "b": 4, "c": 4}, 3)
        self.assertEqual(said, ["a0", "b0", "c0", "b1", "c1", "a1", "c2", "a2", "b2"])

    def test_a_child_that_ends_before_its_turn_is_named(self):
        with tempfile.TemporaryDirectory() as directory, self.assertRaisesRegex(Stopped, "^b$"):
            self.in_turns(directory, {"a": 4, "b": 2}, 3)

    def test_a_child_past_its_limit_is_killed(self):
        with tempfile.TemporaryDirectory() as directory:
            _, code, _ = child.run(["sleep", "60"], dict(os.environ), directory, "x", 0.2)
        self.assertIsNone(code)


class After(unittest.TestCase):
    """What a child has done at one of its steps, asked for while it stands between two of them."""

    STEPS = """
import json, os, signal, sys
done = 0
def say(*_):
    total = {"planned_requests": 10 * done, "online_requests": 5, "map_calls": done}
    with open(sys.argv[1] + ".part", "w") as file:
        json.dump({"format": "stalloc-statistics", "total": total, "process": {}}, file)
    os.replace(sys.argv[1] + ".part", sys.argv[1])
if sys.argv[3] == "handles":
    signal.signal(signal.SIGUSR2, say)
print("ready", flush=True)
sys.stdin.readline()
reports = int(os.environ["CHILD_TURNS_FD"])
for step in range(int(sys.argv[2]) + 1):
    os.write(reports, b".")
    sys.stdin.readline()
    done = step + 1
"""

    def after(self, steps, ends_after, handles="handles"):
        with tempfile.TemporaryDirectory() as directory:
            one = run.Run(directory, "moe", "stalloc1", 0)
            command = [sys.executable, "-c", self.STEPS, one.statistics_path, str(ends_after), handles]
            one.child = child.Child(command, dict(os.environ), directory, one.name, gated=True, turns=True)
            self.assertTrue(one.child.wait_until_ready(30))
            one.child.release()
            bench = run.Bench(mock.Mock(steps=steps, after=4, timeout=30), directory, None)
            found = bench.go_through_turns(one)
            self.assertEqual(one.child.wait(30)[0], 0)
            self.assertFalse(os.path.exists(one.statistics_path), "would pass for the whole run's")
        return found

    def test_a_child_that_the_signal_would_end_is_not_asked(self):
        self.assertEqual(self.after(steps=9, ends_after=9, handles="not"), {})

    def test_it_is_asked_between_two_steps(self):
        found = self.after(steps=9, ends_after=9)
        self.assertEqual((found["planned"], found["map_calls"]), (40, 4))

    def test_a_child_that_ends_before_says_nothing(self):
        self.assertEqual(self.after(steps=9, ends_after=2), {})


class Waves(unittest.TestCase):
    def waves(self, early):
        arguments = mock.Mock(workloads=["a", "b", "c"], allocators=["default", "stalloc1"], repeat=1, early=early)
        return [[run.name for run in wave] for wave in run.Bench(arguments, "/d", None).waves()]

    def test_whole_workloads_as_many_as_fit(self):
        names = [f"{w}.{a}.0" for w in "abc" for a in ("default", "stalloc1")]
        self.assertEqual(self.waves(4), [names[:4], names[4:]])
        self.assertEqual(self.waves(1), [names[:2], names[2:4], names[4:]])


if __name__ == "__main__":
    unittest.main()
