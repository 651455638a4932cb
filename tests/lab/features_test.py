"""Features of PyTorch that its cudaMallocAsync backend lacks: none fails under the preload that passes without it."""

import pathlib
import subprocess
import unittest

import laboratory

SCRIPT = pathlib.Path(__file__).with_name("torch_features.py")


def run(name, preload, **settings):
    done = subprocess.run(
        [laboratory.find_python()[0], "-W", "ignore", str(SCRIPT), name],
        env=laboratory.environment(preload, STALLOC_PLAN_CACHE="off", **settings),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout.strip(), done.stderr


class Features(unittest.TestCase):
    def check(self, name, backend="cudaMallocAsync", **settings):
        code, with_preload, errors = run(name, preload=True, **settings)
        self.assertEqual(code, 0, with_preload + errors)
        self.assertIn(f"({backend})", with_preload)
        self.assertNotIn("Traceback", errors)
        return errors

    def test_what_is_completed(self):
        for name in ("environment", "settings", "statistics", "history", "observer", "mem_pool", "pluggable_pool"):
            with self.subTest(name):
                self.check(name)

    def test_graphs_of_the_program(self):
        self.check("graph_with_pool")

    def test_compiled_graphs_are_gone_without(self):
        self.assertIn("CUDA graph pools", self.check("cudagraphs_backend"))

    def test_tensors_are_sent(self):
        self.check("queue")
        self.check("parameters")

    def test_a_backend_that_is_named_is_obeyed(self):
        for name in ("history", "mem_pool", "settings"):
            with self.subTest(name):
                self.check(name, backend="native", PYTORCH_CUDA_ALLOC_CONF="backend:native")

    def test_nothing_fails_without_the_preload(self):
        for name in ("history", "statistics", "mem_pool", "pluggable_pool"):
            with self.subTest(name):
                code, output, errors = run(name, preload=False)
                self.assertEqual(code, 0, output + errors)


if __name__ == "__main__":
    laboratory.main()
