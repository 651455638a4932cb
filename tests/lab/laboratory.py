"""What the tests of the laboratory share: the interpreter with PyTorch, and a process on the simulated device.

The interpreter is STALLOC_LAB_PYTHON, or that of build/lab-venv. Where there is none with torch, a test prints the
reason and ends with 77, which ctest lists as skipped.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def build_folder():
    """Where the libraries were built: STALLOC_BUILD, which ctest sets, or the release preset's folder."""
    return pathlib.Path(os.environ.get("STALLOC_BUILD") or ROOT / "build" / "release")


def find_python():
    """(interpreter, None), or (None, why there is none)."""
    named = os.environ.get("STALLOC_LAB_PYTHON")
    python = pathlib.Path(named) if named else ROOT / "build" / "lab-venv" / "bin" / "python"
    if not python.exists():
        return None, f"no interpreter with PyTorch: {python} is not there (name one in STALLOC_LAB_PYTHON)"
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    if subprocess.run([python, "-c", probe], check=False).returncode != 0:
        return None, f"{python} has no torch"
    return str(python), None


def environment(preload=False, **settings):
    """The environment of a process on the simulated device."""
    simulated = build_folder() / "lib" / "simcuda"
    names = ("libcudart.so.13", "libcudart.so.12", "libcuda.so.1", "libnvidia-ml.so.1")
    libraries = [str(simulated / name) for name in names if (simulated / name).exists()]
    if preload:
        libraries.insert(0, str(build_folder() / "lib" / "libstalloc.so"))
    result = {name: value for name, value in os.environ.items() if not name.startswith(("STALLOC_", "SIMCUDA_"))}
    result.update(
        LD_PRELOAD=" ".join(libraries),
        LD_LIBRARY_PATH=str(simulated),
        PYTHONPATH=str(ROOT / "tools" / "python" / "simulated"),
        STALLOC_SIMULATED="1",
        OMP_NUM_THREADS="1",
    )
    result.update({name: str(value) for name, value in settings.items()})
    return result


def run(script, *arguments, launcher=(), timeout=300, preload=False, **settings):
    """Runs the text of a Python program. Returns (CompletedProcess, the reports of its processes by rank)."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "program.py")
        path.write_text(script)
        settings.setdefault("STALLOC_SIMULATED_REPORT", os.path.join(folder, "report-%p.json"))
        settings.setdefault("STALLOC_PLAN_CACHE", os.path.join(folder, "plans"))
        done = subprocess.run(
            [find_python()[0], "-W", "ignore", *launcher, str(path), *arguments],
            env=environment(preload, **settings),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        reports = [json.loads(file.read_text()) for file in pathlib.Path(folder).glob("report-*.json")]
    return done, sorted(reports, key=lambda report: report["rank"])


def main():
    """Runs the tests of the calling file, or says why they cannot run."""
    python, reason = find_python()
    if python is None:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main(module="__main__", verbosity=1)
