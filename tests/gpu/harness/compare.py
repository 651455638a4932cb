"""What is read off a run beside the default's run of the same workload and round, and off several rounds together.

A result is one process: {workload, allocator, repeat, exit, record (what the program wrote), shim (its figures),
outside_peak_bytes}. compare() adds `compared`; summaries() makes one dict of each (workload, allocator).
"""

import math
import statistics

from . import allocators


def not_the_allocators(record):
    """Device use at the end of a step that is not the allocator's reserve: context, kernels, the libraries' own."""
    pairs = list(zip(record["driver_used_bytes"], record["reserved_bytes"]))[1:]
    rest = [used - reserved for used, reserved in pairs if used is not None]
    return statistics.median(rest) if rest else None


def median_interval(values, confidence=0.95):
    """(low, high) between which the median of the distribution lies with that confidence, or None for too few values.

    Distribution-free: order statistics, whose ranks the binomial distribution gives (Hollander and Wolfe,
    Nonparametric Statistical Methods, 3.6). Takes the values as independent.
    """
    n, below, tail = len(values), 0.0, (1 - confidence) / 2
    rank = 0  # the largest rank so that at most `tail` lies below it
    while rank < n and below + math.comb(n, rank) / 2**n <= tail:
        below += math.comb(n, rank) / 2**n
        rank += 1
    if rank == 0:
        return None
    ordered = sorted(values)
    return ordered[rank - 1], ordered[n - rank]


def _compare_steps(out, record, reference):
    pairs = list(zip(record["step_ms"], reference["step_ms"]))[record["warmup"] :]
    ratios = [mine / default for mine, default in pairs]
    out["step_ratio"] = statistics.median(ratios) if ratios else None
    interval = median_interval(ratios)
    out["step_ratio_interval"] = interval
    out["step_ratio_error"] = (interval[1] - interval[0]) / 2 if interval else None


def _compare_outside(out, result, reference, backend):
    """Device use that is the allocator's, and what else the process takes that default's does not.

    What is not the allocator's is read off a run without the shim on the same backend: to use CUDA's memory pools at all
    costs some 70 MiB once a process, whoever allocates. What libraries take from CUDA themselves (cuBLAS: 32 MiB a
    handle) is not the allocator's natively, and is under the shim, which serves it.
    """
    record, ours = result["record"], result["allocator"] in allocators.STALLOC
    live = record.get("peak_allocated_bytes")
    rest = not_the_allocators(backend or reference)
    if rest is None or not live or not result["outside_peak_bytes"]:
        return
    served_beside = max(0, live - (backend or reference)["peak_allocated_bytes"]) if ours else 0
    out["outside_bytes"] = result["outside_peak_bytes"] - rest + served_beside
    out["outside_fragmentation"] = 1 - live / out["outside_bytes"]
    out["fixed_bytes"] = not_the_allocators(record) + served_beside - not_the_allocators(reference)


def compare(result, base, backend_base=None):
    """Adds what is read off one result beside `base`, the default's of the same workload and round (or None).

    `backend_base`, if there is one: the run without the shim on the backend of this result, for the view from outside.
    """
    record, reference = result["record"], (base or {}).get("record")
    out = result["compared"] = {}
    if not record:
        return
    finite = bool(record["losses"]) and all(math.isfinite(float.fromhex(x)) for x in record["losses"])
    out["finite"] = finite
    if reference:
        same = record["losses"] == reference["losses"] and record.get("checksum") == reference.get("checksum")
        out["same_bits"] = same and finite and not record["oom"]
        first = next((i for i, (a, b) in enumerate(zip(record["losses"], reference["losses"])) if a != b), None)
        out["first_difference"] = first
        _compare_steps(out, record, reference)
    times = record["step_ms"][record["warmup"] :]
    if len(times) > 3:
        quartiles = statistics.quantiles(times, n=4)
        out["step_spread"] = (quartiles[2] - quartiles[0]) / quartiles[1]
    allocated, reserved = record.get("peak_allocated_bytes"), record.get("peak_reserved_bytes")
    if result["allocator"] in allocators.STALLOC:
        out["fragmentation"] = result.get("shim", {}).get("fragmentation")
    elif allocated and reserved:
        out["fragmentation"] = 1 - allocated / reserved
    if reference:
        _compare_outside(out, result, reference, (backend_base or {}).get("record"))


def compare_all(results):
    runs = {(r["workload"], r["repeat"], r["allocator"]): r for r in results}
    for result in results:
        same = lambda allocator: runs.get((result["workload"], result["repeat"], allocator))
        on_pools = result["allocator"] == "async" or result["allocator"] in allocators.STALLOC
        compare(result, same("default"), same("async") if on_pools else None)


def merge(files):
    """The results of several calls as one list: where a later call ran the same again, its rounds are numbered on."""
    merged, taken = [], {}
    for results in files:
        first = {name: taken.get(name, 0) for name in {r["workload"] for r in results}}
        for result in results:
            name = result["workload"]
            result["repeat"] += first[name]
            taken[name] = max(taken.get(name, 0), result["repeat"] + 1)
            merged.append(result)
    return merged


def _middle(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def _worst(values):
    return max((v for v in values if v is not None), default=None)


def _bits(runs):
    """One word for what all rounds computed."""
    for run in runs:
        if run["exit"] != 0:
            return "OOM" if (run["record"] or {}).get("oom") else "FAILED"
    if any(run["compared"].get("same_bits") is False for run in runs):
        return f"DIFFER@{_worst([run['compared'].get('first_difference') for run in runs])}"
    return "same" if all("same_bits" in run["compared"] for run in runs) else "-"


def mapping(run):
    """(map calls, microseconds of mapping) per step after step --after, if that was asked for; else per iteration, of
    the later half of those listed.

    Where an iteration is several steps (training and an evaluation), the list goes back to the first ones, in which
    everything is mapped for the first time.
    """
    if after := run.get("shim", {}).get("mapping_after"):
        return after
    devices = run.get("shim", {}).get("raw", {}).get("devices", [])
    listed = [one.get("last_iterations", []) for one in devices]
    last = [entry for entries in listed for entry in entries[len(entries) // 2 :]]
    if not last:
        return None, None
    return statistics.mean(e["map_calls"] for e in last), statistics.mean(e["map_us"] for e in last)


def _summary(runs):
    records = [run["record"] or {} for run in runs]
    figures = [run.get("shim", {}) for run in runs]
    every = [run["compared"] for run in runs]
    errors = [one.get("step_ratio_error") for one in every]
    mapped = [mapping(run) for run in runs]
    out = {"rounds": len(runs), "bits": _bits(runs)}
    out["step_ms"] = _middle([r.get("median_step_ms") for r in records])
    out["step_ratio"] = _middle([one.get("step_ratio") for one in every])
    out["step_ratios"] = [one.get("step_ratio") for one in every]
    out["step_ratio_error"] = _worst(errors)
    for name in ("step_spread", "fragmentation", "outside_fragmentation", "outside_bytes", "fixed_bytes"):
        out[name] = _worst([one.get(name) for one in every])
    for name, counter in (("peak_live_bytes", "peak_allocated_bytes"), ("peak_reserved_bytes", "peak_reserved_bytes")):
        out[name] = _worst([f.get(name) or r.get(counter) for f, r in zip(figures, records)])
    for name in ("planned", "online", "passed_through", "planned_share", "planned_share_after", "map_calls"):
        out[name] = _middle([f.get(name) for f in figures])
    first = [sum(steps[:10]) if len(steps := r.get("step_ms") or []) >= 10 else None for r in records]
    out["first_ten_ms"] = _middle(first)
    for cause in ("map", "search", "wait", "marker", "call_site", "learning"):
        out[f"{cause}_us"] = _middle([f.get(f"{cause}_us") for f in figures])
    out["maps_per_iteration"] = _middle([maps for maps, _ in mapped])
    out["map_us_per_iteration"] = _middle([us for _, us in mapped])
    return out


def summaries(results):
    """{workload: {allocator: summary}}, in the order of the results.

    Time is the median of the rounds, memory the worst of them. `noise` is how far from 1 a ratio may lie and mean
    nothing: what `default-again` shows against `default`, or the half-width of the ratio's own 95 % interval over the
    steps, whichever is more.
    """
    groups = {}
    for result in results:
        groups.setdefault(result["workload"], {}).setdefault(result["allocator"], []).append(result)
    found = {w: {name: _summary(runs) for name, runs in mine.items()} for w, mine in groups.items()}
    for mine in found.values():
        control = mine.get(allocators.CONTROL, {}).get("step_ratios", [])
        apart = _worst([abs(ratio - 1) for ratio in control if ratio is not None])
        for summary in mine.values():
            summary["noise"] = _worst([apart, summary["step_ratio_error"]])
    return found
