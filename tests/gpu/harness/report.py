"""The tables of run.py, made of summaries: {workload: {allocator: summary}} as harness/compare.py describes."""

import statistics

from . import allocators, table

_ROWS = ["workload", "allocator", "rounds", "bits", "step ms", "ratio", "± noise", "spread %", "live GiB", "held GiB"]
_ROWS += [
    "frag %",
    "outside GiB",
    "out frag %",
    "fixed MiB",
    "planned",
    "online",
    "passed",
    "planned %",
    "planned after, %",
    "maps",
]
_ROWS += ["maps/step", "map µs/step"]


def _columns(found):
    """The allocators that occur, in their usual order."""
    present = {name for mine in found.values() for name in mine}
    return [name for name in allocators.ALL if name in present]


def rows(found):
    """Every summary in full: (header, rows)."""
    out = []
    for workload, mine in found.items():
        for name, s in mine.items():
            row = [workload, name, s["rounds"], s["bits"], table.number(s["step_ms"], 2), table.number(s["step_ratio"])]
            row += [table.number(s["noise"]), table.percent(s["step_spread"], 1)]
            row += [table.gib(s["peak_live_bytes"]), table.gib(s["peak_reserved_bytes"])]
            row += [table.percent(s["fragmentation"]), table.gib(s["outside_bytes"])]
            row += [table.percent(s["outside_fragmentation"]), table.mib(s["fixed_bytes"])]
            row += [table.count(s[key]) for key in ("planned", "online", "passed_through")]
            row += [table.percent(s[key], 1) for key in ("planned_share", "planned_share_after")]
            row += [table.count(s["map_calls"]), table.number(s["maps_per_iteration"], 1)]
            out.append(row + [table.number(s["map_us_per_iteration"], 0)])
    return _ROWS, out


def fragmentation(found):
    """Workload × allocator: from the counters / from outside, in per cent; below, mean and worst."""
    names = [name for name in _columns(found) if name != allocators.CONTROL]
    cell = lambda s: f"{table.percent(s['fragmentation'])} / {table.percent(s['outside_fragmentation'])}" if s else ""
    out = [[workload, *(cell(mine.get(name)) for name in names)] for workload, mine in found.items()]
    for label, of in (("**mean**", statistics.mean), ("**worst**", max)):
        row = [label]
        for name in names:
            both = []
            for key in ("fragmentation", "outside_fragmentation"):
                values = [mine[name][key] for mine in found.values() if mine.get(name, {}).get(key) is not None]
                both.append(table.percent(of(values) if values else None))
            row.append(" / ".join(both))
        out.append(row)
    return ["frag %, counters / outside", *names], out


def verdict(summary):
    """Whether a step takes at most default's time: "" if so or if the difference is within the noise."""
    ratio, noise = summary["step_ratio"], summary["noise"]
    if ratio is None:
        return "?"
    return "" if ratio <= 1 + (noise or 0) else " (!)"


def step_times(found):
    """Workload × allocator: step time as a multiple of default's, ± the noise; (!) where it is slower by more."""
    names = [name for name in _columns(found) if name != "default"]

    def cell(s):
        if not s:
            return ""
        return f"{table.number(s['step_ratio'])} ± {table.number(s['noise'])}{verdict(s)}"

    out = []
    for workload, mine in found.items():
        base = table.number(mine["default"]["step_ms"], 2) if "default" in mine else "-"
        out.append([workload, base, *(cell(mine.get(name)) for name in names)])
    for label, of in (("**median**", statistics.median), ("**worst**", max)):
        row = [label, ""]
        for name in names:
            values = [mine[name]["step_ratio"] for mine in found.values() if mine.get(name, {}).get("step_ratio")]
            row.append(table.number(of(values) if values else None))
        out.append(row)
    return ["step time / default's", "default, ms", *names], out


def planning(found):
    """Workload × stalloc run: how much was planned, and what mapping an iteration costs at the end."""
    out = []
    for workload, mine in found.items():
        for name in allocators.STALLOC:
            s = mine.get(name)
            if s:
                maps, us, step = s["maps_per_iteration"], s["map_us_per_iteration"], s["step_ms"]
                share = us / (step * 1e3) if us is not None and step else None
                row = [
                    workload,
                    name,
                    table.percent(s["planned_share"], 1),
                    table.percent(s["planned_share_after"], 1),
                ]
                out.append(row + [table.count(s["map_calls"]), table.number(maps, 1), table.percent(share)])
    return [
        "workload",
        "run",
        "planned %",
        "planned after, %",
        "maps, whole run",
        "maps an iteration",
        "mapping, % of a step",
    ], out


def time_by_cause(found):
    """Workload × stalloc run: the first ten steps together over default's, and the host's time by cause over the run."""
    causes = {"map": "mapping", "search": "search", "wait": "waits", "marker": "markers", "call_site": "call sites"}
    causes["learning"] = "learning (a thread of its own)"
    out = []
    for workload, mine in found.items():
        base = mine.get("default", {}).get("first_ten_ms")
        for name in allocators.STALLOC:
            s = mine.get(name)
            if s:
                ratio = s["first_ten_ms"] / base if base and s["first_ten_ms"] else None
                ms = [s[f"{cause}_us"] / 1e3 if s[f"{cause}_us"] is not None else None for cause in causes]
                out.append([workload, name, table.number(ratio, 2), *(table.number(value, 1) for value in ms)])
    return ["workload", "run", "first ten steps / default's", *(f"{name}, ms" for name in causes.values())], out


def fixed_cost(found):
    """A sentence about device memory that is neither tensors nor their allocator's, beyond what it is under default."""
    parts = []
    for name in _columns(found):
        values = [
            mine[name]["fixed_bytes"] for mine in found.values() if mine.get(name, {}).get("fixed_bytes") is not None
        ]
        if values and name not in ("default", allocators.CONTROL):
            low, high = table.mib(min(values)), table.mib(max(values))
            parts.append(f"{name} {low}" if low == high else f"{name} {low} to {high}")
    return "Beside all this a process takes, once, more than under default, in MiB: " + (", ".join(parts) or "-") + "."


def markdown(found):
    """All tables, the short ones first."""
    sections = [table.markdown_table(*make(found)) for make in (fragmentation, step_times, planning, time_by_cause)]
    sections.append(
        "± noise: how far default-again is from default, or half of the ratio's own 95 % interval over the steps, "
        "whichever is more; (!) marks a step that is slower than that allows."
    )
    sections.append(fixed_cost(found))
    full = table.markdown_table(*rows(found))
    sections.append(f"<details><summary>Every run in full</summary>\n\n{full}\n\n</details>")
    return "\n\n".join(sections) + "\n"


def shortfalls(found, each=0.007, mean=0.004):
    """Sentences about what misses the goals: fragmentation (each, mean), bits, steps slower than the noise allows."""
    out = []
    for name in allocators.STALLOC:
        for key, way in (("fragmentation", "by the counters"), ("outside_fragmentation", "from outside")):
            values = {w: mine[name][key] for w, mine in found.items() if mine.get(name, {}).get(key) is not None}
            over = [f"{w} {table.percent(v)} %" for w, v in values.items() if v > each]
            if over:
                out.append(f"{name}, more than {100 * each:g} % {way}: {', '.join(over)}")
            if values and statistics.mean(values.values()) > mean:
                out.append(f"{name}, mean {way}: {table.percent(statistics.mean(values.values()))} %")
        slow = [
            f"{w} {table.number(m[name]['step_ratio'])}"
            for w, m in found.items()
            if name in m and verdict(m[name]) == " (!)"
        ]
        if slow:
            out.append(f"{name}, slower than the noise allows: {', '.join(slow)}")
    for workload, mine in found.items():
        for name, summary in mine.items():
            if summary["bits"] not in ("same", "-"):
                out.append(f"{workload} under {name}: {summary['bits']}")
    return out
