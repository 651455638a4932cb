"""Processes of one program under several allocators, started ahead of their use: imports done, CUDA untouched.

What a process is to do is said only when its turn comes (its gate takes further options), so that whoever searches for
a limit need not know its next question in advance.
"""

import os
import shutil
import sys

from . import allocators
from .child import Child


class Pool:
    """Use as a context manager; what was not used is ended with it. `extra` goes into every process's environment."""

    def __init__(self, script, library, directory, name, extra=None):
        self._command = [sys.executable, script, "--gate"]
        self._library, self._directory, self._name, self._extra = library, directory, name, extra
        self._waiting = {}  # allocator -> [(child, its plan file)]
        self._started = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for waiting in self._waiting.values():
            for child, _ in waiting:
                child.dismiss()

    def start(self, allocator, count=1):
        """Starts processes without waiting until they are ready."""
        for _ in range(count):
            name = f"{self._name}.{allocator}.{self._started}"
            self._started += 1
            plan = os.path.join(self._directory, f"{name}.plan")
            environment = allocators.environment_for(allocator, self._library, plan, extra=self._extra)
            child = Child(self._command, environment, self._directory, name, gated=True)
            self._waiting.setdefault(allocator, []).append((child, plan))

    def fill(self, counts, timeout_s):
        """Starts what is missing to {allocator: count} and waits until all of the pool is ready."""
        for allocator, count in counts.items():
            self.start(allocator, count - len(self._waiting.get(allocator, ())))
        for waiting in self._waiting.values():
            for child, _ in waiting:
                child.wait_until_ready(timeout_s)

    def run(self, allocator, options, timeout_s, kept_plan=None):
        """Runs one process with the options. Returns (child, exit code, seconds).

        stalloc1 leaves the plan that it made at `kept_plan`, and stalloc2 finds there what stalloc1 left.
        """
        if not self._waiting.get(allocator):
            self.start(allocator)
        child, plan = self._waiting[allocator].pop(0)
        child.wait_until_ready(timeout_s)
        if allocator == "stalloc2" and kept_plan and os.path.exists(kept_plan):
            shutil.copyfile(kept_plan, plan)
        child.release(options)
        code, seconds = child.wait(timeout_s)
        if allocator == "stalloc1" and kept_plan and os.path.exists(plan):
            shutil.copyfile(plan, kept_plan)
        return child, code, seconds
