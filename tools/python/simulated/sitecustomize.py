"""Read by every Python of a program that runs on the simulated device: this folder lies first on PYTHONPATH.

It hands over to the environment's own sitecustomize, if there is one behind it on sys.path, and then, only where
STALLOC_SIMULATED=1, asks to be told when torch is imported. Nothing is imported until then.
"""

import os
import sys


def _run_the_next():
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(os.path.abspath(__file__))
    behind = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", behind)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


_run_the_next()

if os.environ.get("STALLOC_SIMULATED") == "1":
    import stalloc_simulated.hooks

    stalloc_simulated.hooks.install()
