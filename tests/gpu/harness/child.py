"""Child processes with a time limit, their output in files, and an optional gate.

A gated child does its imports, says "ready" and waits for a line on stdin before it touches CUDA, so that several get
ready side by side and then run one after another. Every child leads its own process group; only that group is killed.
"""

import os
import shlex
import signal
import subprocess
import time


class Child:
    def __init__(self, command, environment, directory, name, gated=False):
        os.makedirs(directory, exist_ok=True)
        self.name = name
        self._gated = gated
        self._paths = [os.path.join(directory, f"{name}.{kind}") for kind in ("stdout", "stderr")]
        self._files = [open(path, "w") for path in self._paths]
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE if gated else subprocess.DEVNULL,
            stdout=self._files[0],
            stderr=self._files[1],
            start_new_session=True,
        )

    def wait_until_ready(self, timeout_s):
        """True once a gated child waits at its gate; False if it died before that or took too long."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.stdout().startswith("ready"):
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.02)
        return False

    def release(self, options=()):
        """Opens the gate, with further options for the program; the time limit counts from here."""
        self.started = time.monotonic()
        if self._gated:
            try:
                self.process.stdin.write((shlex.join(map(str, options)) + "\n").encode())
                self.process.stdin.close()
            except OSError:
                pass  # it is dead already; wait() will say how

    def wait(self, timeout_s):
        """Returns (exit code, seconds since release); a child past its limit is killed and has exit code None."""
        try:
            code = self.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            code = None
        for file in self._files:
            file.close()
        return code, time.monotonic() - self.started

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def dismiss(self):
        """Ends a child that is not needed any more, wherever it is."""
        self.kill()
        if self._gated:
            self.process.stdin.close()
        for file in self._files:
            file.close()

    def stdout(self):
        return _read(self._paths[0])

    def stderr(self):
        return _read(self._paths[1])


def _read(path):
    with open(path, errors="replace") as file:
        return file.read()


def tail(text, lines=25, width=300):
    return "\n".join(line[:width] for line in text.splitlines()[-lines:])


def run(command, environment, directory, name, timeout_s):
    """Starts a child and waits for it. Returns (child, exit code, seconds)."""
    child = Child(command, environment, directory, name)
    code, seconds = child.wait(timeout_s)
    return child, code, seconds
