#!/usr/bin/env python3
"""Draws what the harnesses measured: SVG files out of their results.json, one for each table of RESULTS.md.

    python3 tests/gpu/plots.py tests/gpu/plots RESULTS.json...

What a file holds is seen from the file: run.py's gives fragmentation.svg, step_time.svg and mapping.svg, run_multi.py's
several_gpus.svg, max_batch.py's what_it_buys.svg, microbench.py's hot_path.svg. Several of one kind are drawn together.
"""

import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import allocators, compare, svg

COLOURS = {
    "default": "#8c8c8c",
    "default-again": "#bdbdbd",
    "expandable": "#1b6ca8",
    "async": "#8e5bb5",
    "stalloc1": "#e08214",
    "stalloc2": "#2e8b57",
    "online": "#b8860b",
    "native": "#8c8c8c",
}
NAMES = {
    "expandable": "expandable segments",
    "async": "cudaMallocAsync",
    "stalloc1": "stalloc, first run",
    "stalloc2": "stalloc, second run",
    "online": "stalloc, never planned",
    "native": "CUDA itself",
}
GOAL = 0.7  # per cent of fragmentation


def legend(columns):
    return [(NAMES.get(name, name), COLOURS[name], True) for name in columns]


def percent_axis(title):
    ticks = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100]
    return svg.Axis(0.01, 100, ticks, title, log=True, form=lambda v: f"{v:g} %")


def fragmentation_dots(title, rows):
    """rows: {label: {allocator: (by the counters, from outside)}}, shares or None."""
    series = []
    for name in (*allocators.PEERS, *allocators.STALLOC):
        for way, filled in ((0, True), (1, False)):
            values = {label: mine[name][way] for label, mine in rows.items() if name in mine}
            values = {label: 100 * value for label, value in values.items() if value is not None}
            if values:
                series.append((NAMES.get(name, name) if filled else None, COLOURS[name], filled, values))
    series.append(("hollow: from outside", "#333", False, {}))
    axis = percent_axis("1 − peak live / peak reserved; 0.01 % stands for less, too")
    return svg.dots(title, axis, list(rows), series, [(GOAL, "0.7 %")])


def fragmentation(found):
    both = lambda s: (s["fragmentation"], s["outside_fragmentation"])
    rows = {w: {name: both(s) for name, s in mine.items()} for w, mine in found.items()}
    return fragmentation_dots("Fragmentation, by the counters and from outside", rows)


def step_time(found):
    series, bands = [], {}
    for name in allocators.ALL[1:]:
        values = {w: mine[name]["step_ratio"] for w, mine in found.items() if name in mine}
        if any(values.values()):
            series.append((NAMES.get(name, name), COLOURS[name], name != allocators.CONTROL, values))
    for workload, mine in found.items():
        noise = [mine[name]["noise"] for name in allocators.STALLOC if name in mine and mine[name]["noise"]]
        if noise:
            bands[workload] = (1 - max(noise), 1 + max(noise))
    ratios = [value for *_, values in series for value in values.values() if value]
    axis = svg.linear_axis(ratios, "step time / default PyTorch's; grey: what is noise", form="{:.3f}".format)
    return svg.dots("Step time", axis, list(found), series, [(1.0, "1.00")], bands)


def mapping(found):
    series = []
    for name in allocators.STALLOC:
        values = {w: mine[name]["maps_per_iteration"] for w, mine in found.items() if name in mine}
        series.append((NAMES[name], COLOURS[name], name == "stalloc2", values))
    form = lambda v: "none" if v < 0.2 else f"{v:g}"
    axis = svg.Axis(0.1, 1000, [0.1, 1, 10, 100, 1000], "map calls in an iteration, mean of the last", True, form)
    return svg.dots("Mapping in the steady state", axis, list(found), series)


def several_gpus(results):
    rows = {}
    for r in results:
        compared = r["compared"]
        cell = (compared.get("fragmentation"), compared.get("outside_fragmentation"))
        rows.setdefault(f"{r['mode']}, rank {r['rank']}", {})[r["allocator"]] = cell
    return fragmentation_dots("Fragmentation on several GPUs", rows)


def best_of(results):
    """{case: {allocator: the row with the highest rate}}."""
    best = {}
    for r in results:
        mine = best.setdefault(r["case"], {})
        if r["rate"] and r["rate"] > mine.get(r["allocator"], {"rate": 0})["rate"]:
            mine[r["allocator"]] = r
    return best


def what_it_buys(results):
    groups, ratios, used = [], [], {}
    for case, mine in best_of(results).items():
        base = mine.get("default", {}).get("rate")
        rows = []
        for name, row in mine.items():
            if base:
                ratios.append(row["rate"] / base)
                used[name] = True
                text = f"{row['words']}: {row['rate']:.1f} samples/s, {row['rate'] / base:.3f}"
                rows.append((COLOURS[name], row["rate"] / base, text))
        if rows:
            free = next(iter(mine.values()))["free_bytes"]
            groups.append((f"{case.split('@')[0]}, {free / 2**30:.1f} GiB free", rows))
    axis = svg.linear_axis(ratios, "throughput / that of default's best configuration", include=(0.0, 1.0))
    columns = [name for name in allocators.ALL if name in used]
    return svg.bars("What trains in a fixed budget, and how fast", axis, groups, legend(columns), [(1.0, "")])


def hot_path(nanoseconds):
    groups, ratios, used = [], [], {}
    for row, cells in nanoseconds.items():
        middle = {name: statistics.median(found) for name, found in cells.items()}
        base = middle.get("native") or middle.get("default")
        rows = []
        for name, value in middle.items():
            used[name] = True
            ratios.append(value / base)
            rows.append((COLOURS[name], value / base, f"{value:.0f} ns"))
        groups.append((row, rows))
    ratios.sort()
    axis = svg.linear_axis(ratios, "time of a pair / CUDA's own, or default PyTorch's for torch.empty", (0.0, 1.0))
    columns = [name for name in COLOURS if name in used]
    return svg.bars("What a request costs the host", axis, groups, legend(columns), [(1.0, "")])


def drawings(contents):
    """{file name: SVG} of the contents of results.json files."""
    runs = [c["results"] for c in contents if c.get("results") and "repeat" in c["results"][0]]
    ranks = [r for c in contents for r in c.get("results", ()) if "rank" in r]
    cases = [r for c in contents for r in c.get("results", ()) if "case" in r]
    out = {}
    if runs:
        results = compare.merge(runs)
        compare.compare_all(results)
        found = compare.summaries(results)
        out.update({"fragmentation.svg": fragmentation(found), "step_time.svg": step_time(found)})
        out["mapping.svg"] = mapping(found)
    if ranks:
        out["several_gpus.svg"] = several_gpus(ranks)
    if cases:
        out["what_it_buys.svg"] = what_it_buys(cases)
    for content in contents:
        if "nanoseconds" in content:
            out["hot_path.svg"] = hot_path(content["nanoseconds"])
    return out


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    contents = []
    for path in sys.argv[2:]:
        with open(path) as file:
            contents.append(json.load(file))
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, text in drawings(contents).items():
        with open(os.path.join(sys.argv[1], name), "w") as file:
            file.write(text)
        print(os.path.join(sys.argv[1], name))


if __name__ == "__main__":
    main()
