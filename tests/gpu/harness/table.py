"""Tables for the terminal and for Markdown, and the number forms used in them."""


def percent(value, digits=2):
    return "-" if value is None else f"{100 * value:.{digits}f}"


def gib(value):
    return "-" if value is None else f"{value / (1 << 30):.3f}"


def mib(value):
    return "-" if value is None else f"{value / (1 << 20):.0f}"


def number(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"


def count(value):
    return "-" if value is None else str(value)


def text_table(header, rows):
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    lines = ["  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [header, *rows]]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def markdown_table(header, rows):
    lines = ["| " + " | ".join(map(str, header)) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])
