"""What the shim itself says: its summary line on stderr and its statistics file.

A figure that is not there is None, never a guess.
"""

import json
import os
import re
import signal
import time

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_LINE = re.compile(r"^stalloc\[(?P<who>[^\]]*)\] .*fragmentation.*$", re.M)


def _bytes(text, label):
    match = re.search(label + r" ([\d.]+) ([KMGT]iB|B)\b", text)
    return int(float(match[1]) * _UNITS[match[2]]) if match else None


def _count(text, label):
    match = re.search(r"(\d+)(?: \([^)]*\))? " + label, text)
    return int(match[1]) if match else None


def summary_lines(stderr):
    """Every process's summary line: a list of dicts, with the text itself under `line`."""
    found = []
    for match in _LINE.finditer(stderr):
        line = match[0]
        percent = re.search(r"fragmentation ([\d.]+) %", line)
        found.append(
            {
                "line": line[:400],
                "who": match["who"],
                "peak_live_bytes": _bytes(line, "peak live"),
                "peak_reserved_bytes": _bytes(line, "peak reserved"),
                "fragmentation": float(percent[1]) / 100 if percent else None,
                "planned": _count(line, "planned"),
                "online": _count(line, "online"),
                "passed_through": _count(line, "passed through"),
            }
        )
    return found


def other_lines(stderr):
    """Everything else that the shim said: warnings, errors."""
    return [line[:300] for line in stderr.splitlines() if line.startswith("stalloc[") and not _LINE.match(line)]


# Figures of the statistics file (format "stalloc-statistics") under the names used here.
_TOTAL = {
    "peak_live_bytes": "peak_live_bytes",
    "peak_reserved_bytes": "peak_reserved_bytes",
    "planned": "planned_requests",
    "online": "online_requests",
    "planned_bytes": "planned_bytes",
    "online_bytes": "online_bytes",
    "out_of_memory": "out_of_memory",
    "map_calls": "map_calls",
    **{f"{cause}_us": f"{cause}_us" for cause in ("map", "search", "wait", "marker", "call_site", "learning")},
    "inserted_waits": "waits_inserted",
    "plans": "plans_installed",
    "iterations": "iterations",
}
_PROCESS = {"passed_through": "passed_through_requests", "passed_through_bytes": "passed_through_bytes"}


def read_statistics(path):
    """The statistics file as a flat dict of known figures, with the whole file under `raw`; {} if there is none."""
    try:
        with open(path) as file:
            raw = json.load(file)
        if raw.get("format") != "stalloc-statistics":
            return {}
        figures = {name: raw["total"].get(key) for name, key in _TOTAL.items()}
        figures.update({name: raw["process"].get(key) for name, key in _PROCESS.items()})
    except (OSError, ValueError, AttributeError, KeyError):
        return {}
    figures["raw"] = raw
    return figures


def _handles(process, number):
    """Whether a process has a handler for a signal that would end it otherwise."""
    try:
        with open(f"/proc/{process.pid}/status") as file:
            caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", file.read(), re.M)
    except OSError:
        return False
    return caught is not None and int(caught[1], 16) >> (number - 1) & 1 == 1


def statistics_on_request(process, path, timeout_s=10):
    """What a process that was started with STALLOC_STATS_SIGNAL=SIGUSR2 has done so far, as read_statistics(); {} if it
    does not say: the shim may have found nothing to serve there. `path` is where its statistics go; nothing stays
    there, for what a run that fails later has left must not pass for all of it."""
    if not _handles(process, signal.SIGUSR2):
        return {}
    process.send_signal(signal.SIGUSR2)
    deadline = time.monotonic() + timeout_s
    while not os.path.exists(path) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    figures = read_statistics(path)
    if os.path.exists(path):
        os.remove(path)
    return figures


def share_of_later_requests(whole, beginning):
    """The planned share of what `whole` served beyond `beginning`, its figures at an earlier step; None if unknown."""
    counts = [figures.get(key) for figures in (whole, beginning) for key in ("planned", "online")]
    if any(count is None for count in counts):
        return None
    planned, online = counts[0] - counts[2], counts[1] - counts[3]
    return planned / (planned + online) if planned >= 0 and online >= 0 and planned + online > 0 else None


def mapping_of_later_steps(whole, beginning, steps):
    """(map calls, microseconds) in each of the `steps` steps that `whole` did beyond `beginning`; None if unknown."""
    pairs = [(whole.get(key), beginning.get(key)) for key in ("map_calls", "map_us")]
    if steps <= 0 or any(value is None for pair in pairs for value in pair):
        return None
    return tuple(max(0, end - start) / steps for end, start in pairs)


def bytes_share(figures):
    """Bytes served of all bytes granted, None where the statistics do not say. What was refused counts nowhere: the shim
    says of a request that it passed through only once the driver has granted it."""
    served = [figures.get(key) for key in ("planned_bytes", "online_bytes")]
    passed = figures.get("passed_through_bytes")
    if None in served or passed is None or sum(served) + passed == 0:
        return None
    return sum(served) / (sum(served) + passed)


def figures_of(stderr, statistics_path):
    """Summary line and statistics together: the file's figures first (exact bytes), the line's where it has none."""
    lines = summary_lines(stderr)
    line = lines[-1] if lines else {}
    statistics = read_statistics(statistics_path) if statistics_path else {}
    merged = dict(line)
    merged.update({k: v for k, v in statistics.items() if v is not None})
    merged["warnings"] = other_lines(stderr)[:6]
    live, reserved = merged.get("peak_live_bytes"), merged.get("peak_reserved_bytes")
    if live and reserved:
        merged["fragmentation"] = 1 - live / reserved
    merged["planned_share"] = _planned_share(merged)
    return merged


def _planned_share(figures):
    served = (figures.get("planned") or 0) + (figures.get("online") or 0)
    return (figures.get("planned") or 0) / served if served else None


def figures_of_all(stderr, statistics_paths):
    """The figures of all processes of a program, one statistics file each: counts and bytes added up; of fragmentation
    the worst, among processes that held at least a tenth of what the largest did. Without files, those of figures_of."""
    found = [figures for figures in map(read_statistics, statistics_paths) if figures]
    if not found:
        return figures_of(stderr, None)
    together = {"warnings": other_lines(stderr)[:6], "processes": len(found)}
    for key in ("planned", "online", "planned_bytes", "online_bytes", "out_of_memory", "map_calls", *_PROCESS):
        values = [figures[key] for figures in found if figures.get(key) is not None]
        together[key] = sum(values) if values else None
    largest = max(figures.get("peak_reserved_bytes") or 0 for figures in found)
    worst = []
    for figures in found:
        live, reserved = figures.get("peak_live_bytes"), figures.get("peak_reserved_bytes")
        if live and reserved and reserved * 10 >= largest:
            worst.append(1 - live / reserved)
    together["fragmentation"] = max(worst) if worst else None
    together["planned_share"] = _planned_share(together)
    return together
