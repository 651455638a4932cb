"""Prints the table that tools/quickstart ends with, from the three runs' JSON; fails if their results differ."""

import json
import pathlib
import sys

GIB = 1 << 30
RUNS = (("without", "without stalloc"), ("with", "with stalloc"), ("again", "again, with its plan"))


def summary_line(log):
    """What stalloc said at the end of a run."""
    lines = [line for line in log.read_text().splitlines() if line.startswith("stalloc[")]
    return lines[-1] if lines else "(stalloc said nothing)"


def main():
    folder = pathlib.Path(sys.argv[1])
    results = {name: json.loads((folder / f"{name}.json").read_text()) for name, _ in RUNS}
    reference = results["without"]
    print()
    print(f"  {'':<22}{'peak live':>11}{'peak reserved':>16}{'fragmentation':>16}   results")
    for name, title in RUNS:
        result = results[name]
        live, reserved = result["live_bytes"], result["reserved_bytes"]
        fragmentation = 100 * (1 - live / reserved)
        same = "same" if result["checksums"] == reference["checksums"] else "DIFFERENT"
        verdict = f"{len(reference['checksums'])} steps" if name == "without" else same
        print(f"  {title:<22}{live / GIB:>7.2f} GiB{reserved / GIB:>12.2f} GiB{fragmentation:>14.2f} %   {verdict}")
    if "--simulated" in sys.argv:
        print()
        print("  Simulated: the first line is a model of cudaMallocAsync's pool, the others are stalloc as it is.")
    print()
    print("What stalloc said at the end of the run that started with the plan:")
    print("  " + summary_line(folder / "again.log"))
    return any(result["checksums"] != reference["checksums"] for result in results.values())


if __name__ == "__main__":
    sys.exit(main())
