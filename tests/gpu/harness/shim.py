"""What the shim itself says: its summary line on stderr and its statistics file.

Read tolerantly, because these harnesses also compare older builds: a figure that is not there is None, never a guess.
"""

import json
import re

_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_LINE = re.compile(r"^stalloc\[(?P<who>[^\]]*)\] .*fragmentation.*$", re.M)


def _bytes(text, label):
    match = re.search(label + r"\D{0,12}?([\d.,]+)\s*([KMGT]iB|B)\b", text, re.I)
    return int(float(match[1].replace(",", "")) * _UNITS[match[2]]) if match else None


def _count(text, label):
    match = re.search(r"(\d[\d,]*)(?<!,)(?:\s*\([^)]*\))?\s+(?:requests?\s+)?" + label, text, re.I)
    match = match or re.search(label + r"\s*[:=]?\s*([\d,]+)", text, re.I)
    return int(match[1].replace(",", "")) if match else None


def summary_lines(stderr):
    """Every process's summary line: a list of dicts, with the text itself under `line`."""
    found = []
    for match in _LINE.finditer(stderr):
        line = match[0]
        percent = re.search(r"fragmentation\D{0,6}([\d.]+)\s*%", line) or re.search(r"([\d.]+)\s*% fragmentation", line)
        found.append(
            {
                "line": line[:400],
                "who": match["who"],
                "peak_live_bytes": _bytes(line, "peak live"),
                "peak_reserved_bytes": _bytes(line, "(?:peak )?reserved"),
                "fragmentation": float(percent[1]) / 100 if percent else None,
                "planned": _count(line, "planned"),
                "online": _count(line, "online"),
                "passed_through": _count(line, r"passed(?: through)?"),
            }
        )
    return found


def other_lines(stderr):
    """Everything else that the shim said: warnings, errors."""
    return [line[:300] for line in stderr.splitlines() if line.startswith("stalloc[") and not _LINE.match(line)]


def _find(node, names):
    """The first value under one of `names`, breadth first, anywhere in a JSON tree."""
    level = [node]
    while level:
        following = []
        for item in level:
            if isinstance(item, dict):
                for name in names:
                    if isinstance(item.get(name), (int, float)) and not isinstance(item[name], bool):
                        return item[name]
                following += item.values()
            elif isinstance(item, list):
                following += item
        level = following
    return None


def _iterations(node):
    """The list of per-iteration counts, where the statistics have one: [{planned, online, ...}, ...]."""
    if isinstance(node, list) and len(node) > 1 and all(isinstance(x, dict) for x in node):
        if all(_find(x, _NAMES["planned"]) is not None for x in node):
            return node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        found = _iterations(child)
        if found:
            return found
    return None


_NAMES = {
    "planned": ("planned", "planned_requests", "served_planned", "requests_planned"),
    "online": ("online", "online_requests", "served_online", "requests_online"),
    "passed_through": ("passed_through", "passed_through_requests", "requests_passed_through", "passed"),
    "peak_live_bytes": ("peak_live_bytes", "live_peak_bytes", "used_high_bytes"),
    "peak_reserved_bytes": ("peak_reserved_bytes", "reserved_peak_bytes", "reserved_high_bytes"),
    "map_calls": ("map_calls", "mapped_handles", "maps"),
    "map_us": ("map_us", "map_microseconds", "mapping_us"),
    "inserted_waits": ("inserted_waits", "stream_waits", "waits_inserted"),
}


def read_statistics(path):
    """The statistics file as a flat dict of known figures, with the whole file under `raw`; {} if there is none."""
    try:
        with open(path) as file:
            raw = json.load(file)
    except (OSError, ValueError):
        return {}
    figures = {name: _find(raw, names) for name, names in _NAMES.items()}
    iterations = _iterations(raw)
    if iterations and len(iterations) > 6:
        # Without the first six: what a steady step is served. The last one may be the end of the program.
        counted = iterations[6:-1] or iterations[6:]
        planned = sum(_find(x, _NAMES["planned"]) for x in counted)
        online = sum(_find(x, _NAMES["online"]) or 0 for x in counted)
        if planned + online:
            figures["planned_share_after_6"] = planned / (planned + online)
    figures["raw"] = raw
    return figures


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
    served = (merged.get("planned") or 0) + (merged.get("online") or 0)
    merged["planned_share"] = (merged.get("planned") or 0) / served if served else None
    return merged
