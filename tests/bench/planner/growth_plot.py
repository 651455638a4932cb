#!/usr/bin/env python3
"""How the planner's time and memory grow with the number of requests, as an SVG.

Runs planner_table on steps of training traces, tiled to 10^3 ... 10^6 requests, one thread, greedy passes until the
bound is met or all are done. Time is the planner's own; memory is the peak of the whole process, the trace included.

    tests/bench/planner/growth_plot.py build/release/bin/planner_table tests/bench/planner/growth.svg
"""
import math
import os
import subprocess
import sys

TRACES = ["gpt2", "moe", "vpp", "bert-var"]
COUNTS = [10**3, 10**4, 10**5, 10**6]
COLOURS = ["#1b6ca8", "#c0392b", "#2e8b57", "#8e5bb5"]
WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 250, 60, 40, 90


def measure(table, trace, count):
    """Requests, seconds and peak MiB of one run."""
    command = [table, "--filter", "training_traces/" + trace, "--tile", str(count), "--effort", "0", "--threads", "1"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    rows = [line.split("|") for line in child.stdout if line.startswith("| training_traces/")]
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0 or len(rows) != 1:
        sys.exit(f"{' '.join(command)}: failed, or not one data set of that name")
    requests, ratio, seconds = int(rows[0][2]), float(rows[0][5]), float(rows[0][6])
    print(f"{trace}: {requests} requests, {seconds:.3f} s, {usage.ru_maxrss / 1024:.0f} MiB, ratio {ratio:.5f}")
    return requests, max(seconds, 0.001), usage.ru_maxrss / 1024


def panel(x, title, series, low, high, label):
    """One log-log diagram: 10^3 to about 10^6 requests across, 10^low to 10^high upwards."""
    across = lambda n: x + LEFT + (math.log10(n) - 3) / 3.1 * WIDTH
    up = lambda v: TOP + HEIGHT - (math.log10(v) - low) / (high - low) * HEIGHT
    parts = [f'<text x="{x + LEFT}" y="{TOP - 16}" font-weight="bold">{title}</text>']
    for exponent in range(3, 7):
        at = across(10**exponent)
        parts.append(f'<path d="M{at:.1f} {TOP}V{TOP + HEIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">10^{exponent}</text>')
    for exponent in range(low, high + 1):
        at = up(10**exponent)
        parts.append(f'<path d="M{x + LEFT} {at:.1f}h{WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{x + LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{label(10**exponent)}</text>')
    for points, colour in zip(series, COLOURS):
        path = " ".join(f"{across(n):.1f},{up(v):.1f}" for n, v in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{across(n):.1f}" cy="{up(v):.1f}" r="3" fill="{colour}"/>' for n, v in points]
    parts.append(f'<text x="{x + LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 36}" text-anchor="middle">requests</text>')
    return parts


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    runs = [[measure(sys.argv[1], trace, count) for count in COUNTS] for trace in TRACES]
    time = [[(n, seconds) for n, seconds, _ in run] for run in runs]
    memory = [[(n, mib) for n, _, mib in run] for run in runs]
    total = 2 * (WIDTH + LEFT) + GAP
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{TOP + HEIGHT + 50}" '
             'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    parts += panel(0, "planning time, one thread", time, -3, 2, lambda v: f"{v:g} s")
    parts += panel(WIDTH + GAP, "peak memory of the process", memory, 0, 3, lambda v: f"{v:g} MiB")
    for k, trace in enumerate(TRACES):
        parts.append(f'<text x="{LEFT + 12}" y="{TOP + 18 + 16 * k}" fill="{COLOURS[k]}">{trace}</text>')
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write("\n".join(parts + ["</svg>", ""]))


if __name__ == "__main__":
    main()
