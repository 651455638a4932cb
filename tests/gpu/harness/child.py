"""Child processes with a time limit, their output in files, an optional gate, and turns.

A gated child does its imports, says "ready" and waits for a line on stdin before it touches CUDA, so that several get
ready side by side and then run one after another. A child that takes turns stops again before each unit of its work, so
that several do theirs by turns, or that one can be asked between two of them. Every child leads its own process group;
only that group is killed.
"""

import os
import select
import shlex
import signal
import subprocess
import time

# Where a child that takes turns reports: a descriptor's number. Not among its options, which are what tells one
# configuration of a program from another: a plan kept by a run without turns is for the same program with them.
TURNS = "CHILD_TURNS_FD"


class Child:
    def __init__(self, command, environment, directory, name, gated=False, turns=False):
        """`turns`: a gated child whose environment says, as TURNS, where it reports before each turn."""
        os.makedirs(directory, exist_ok=True)
        self.name = name
        self._gated, self._turns, reports = gated, None, ()
        if turns:
            self._turns, theirs = os.pipe()
            reports, environment = (theirs,), {**environment, TURNS: str(theirs)}
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
            pass_fds=reports,
        )
        for descriptor in reports:
            os.close(descriptor)

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
                self.process.stdin.flush() if self._turns else self.process.stdin.close()
            except OSError:
                pass  # it is dead already; wait() will say how

    def await_turn(self, timeout_s):
        """True once the child stands before its next turn; False if it ended before that or took too long."""
        ready, _, _ = select.select([self._turns], [], [], timeout_s)
        return bool(ready) and os.read(self._turns, 1) != b""

    def give_turn(self):
        """Lets the child go on to where it waits for the turn after this one."""
        try:
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it is dead already, which shows where its next turn or its end is awaited

    def wait(self, timeout_s):
        """Returns (exit code, seconds since release); a child past its limit is killed and has exit code None."""
        try:
            code = self.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            code = None
        self._close()
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
        self._close()

    def _close(self):
        if self._gated:
            try:
                self.process.stdin.close()
            except OSError:
                pass  # a line that the child did not live to read
        if self._turns is not None:
            os.close(self._turns)
            self._turns = None
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
