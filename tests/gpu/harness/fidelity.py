"""Holds the contract's columns against each other, row by row.

A column is one system: the driver alone, the shim over it, the simulated device alone, the shim over that. The driver
says what is right; where it was not asked, the simulated device stands for it. A row that differs has to be explained,
for the columns in which it differs, and an explanation has to be of a row that does.
"""

from fnmatch import fnmatchcase

DRIVER, SHIM, SIMULATED, SIMULATED_SHIM = COLUMNS = ("driver", "shim", "simulated", "simulated, shim")
BOTH_SHIMS = (SHIM, SIMULATED_SHIM)
NOT_EXPLAINED = "**not explained**"
NOT_THERE = "-"


class Explanation:
    """Why the rows that match `pattern` differ from the driver's, and in which columns."""

    def __init__(self, pattern, columns, why):
        self.pattern, self.columns, self.why = pattern, columns, why

    def of(self, row):
        return fnmatchcase(row, self.pattern)


def explanation_of(row, explanations):
    return next((e for e in explanations if e.of(row)), None)


def _differing(cells, explained_columns):
    """The columns of `cells` ({column: answer}) that do not have the reference's answer; () where there is none."""
    reference = DRIVER if DRIVER in cells else SIMULATED
    # Known to be another than the driver's, the simulated device's answer cannot stand for it.
    if reference not in cells or reference in explained_columns:
        return ()
    return tuple(c for c in cells if cells[c] != cells[reference])


def _judge(cells, explanation):
    columns = explanation.columns if explanation else ()
    differing = _differing(cells, columns)
    faults = [c for c in differing if c not in columns]
    faults += [c for c in cells if c != DRIVER and "wrong" in cells[c]]
    # The shim is one program: over the simulated device it answers as over the driver, if the two agree.
    shims = [cells[c] for c in BOTH_SHIMS if c in cells]
    if len(set(shims)) > 1 and SIMULATED not in differing:
        faults.append(SIMULATED_SHIM)
    if faults:
        return NOT_EXPLAINED
    return explanation.why if differing else ""


def compare(answers, programs, explanations):
    """answers: {"program.column": {row: answer}}.

    Returns ([program, row, *cells], remark) of each row, and the explanations that hold no longer, as text. A cell is ""
    where the program did not run in that column; a remark is "" where all columns agree.
    """
    found, differing, seen = [], set(), set()
    for program in programs:
        ran = {c: answers[f"{program}.{c}"] for c in COLUMNS if f"{program}.{c}" in answers}
        for row in dict.fromkeys(name for rows in ran.values() for name in rows):
            cells = {c: rows.get(row, NOT_THERE) for c, rows in ran.items()}
            explanation = explanation_of(row, explanations)
            found.append(([program, row, *(cells.get(c, "") for c in COLUMNS)], _judge(cells, explanation)))
            if explanation is None:
                continue
            reference = DRIVER if DRIVER in cells else SIMULATED
            if reference in cells and (reference == DRIVER or SIMULATED not in explanation.columns):
                seen |= {(explanation, c) for c in cells if c != reference}
            differing |= {(explanation, c) for c in _differing(cells, explanation.columns)}
    stale = [
        f"{e.pattern} is said to differ in the column {c}, and does not: {e.why}"
        for e in explanations
        for c in e.columns
        if (e, c) in seen and (e, c) not in differing
    ]
    return found, stale


def per_program(found):
    """[program, rows, equal, explained, not explained] of each program, and of all."""
    counts = {}
    for (program, *_), remark in found:
        for name in (program, "all"):
            count = counts.setdefault(name, [0, 0, 0, 0])
            count[0] += 1
            count[1 if remark == "" else 3 if remark == NOT_EXPLAINED else 2] += 1
    counts["all"] = counts.pop("all", [0, 0, 0, 0])
    return [[name, *count] for name, count in counts.items()]
