"""Two kinds of diagram as SVG text, with no library: dots on a row for each label, and bars in groups.

Sizes are in pixels. A value outside the axis is drawn at its edge.
"""

import html
import math

_ROW, _LEFT, _WIDTH, _TOP, _BOTTOM, _RIGHT = 24, 190, 620, 64, 44, 30


class Axis:
    """A horizontal axis from `low` to `high` with ticks; `log` for a logarithmic one, `form` for a tick's text."""

    def __init__(self, low, high, ticks, title, log=False, form="{:g}".format):
        self.low, self.high, self.ticks, self.title, self.log, self.form = low, high, ticks, title, log, form

    def at(self, value):
        value = min(max(value, self.low), self.high)
        scale = math.log10 if self.log else float
        return _LEFT + (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low)) * _WIDTH


def linear_axis(values, title, include=(1.0,), form="{:g}".format):
    """An axis around the values, with about six ticks at round numbers."""
    low, high = min([*values, *include]), max([*values, *include])
    if low == high:
        low, high = low - 0.1, high + 0.1
    span = high - low
    step = 10 ** math.floor(math.log10(span / 5))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (factor * step) <= 7)
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = [round(i * step, 10) for i in range(first, last + 1)]
    return Axis(ticks[0], ticks[-1], ticks, title, form=form)


def _text(x, y, text, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(str(text))}</text>'


def _frame(title, axis, height, legend):
    """The head of the drawing, the axis with its grid, and the legend: [(name, colour, filled)]."""
    total = _LEFT + _WIDTH + _RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{_TOP + height + _BOTTOM}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(12, 20, title, more=' font-weight="bold"'),
    ]
    x = 12.0
    for name, colour, filled in legend:
        parts.append(
            f'<circle cx="{x + 5:.1f}" cy="38" r="4.5" stroke="{colour}" fill="{colour if filled else "white"}"/>'
        )
        parts.append(_text(x + 14, 42, name))
        x += 30 + 6.5 * len(name)
    for tick in axis.ticks:
        at = axis.at(tick)
        parts.append(f'<path d="M{at:.1f} {_TOP}v{height}" stroke="#ddd"/>')
        parts.append(_text(at, _TOP + height + 16, axis.form(tick), "middle"))
    parts.append(_text(_LEFT + _WIDTH / 2, _TOP + height + 34, axis.title, "middle"))
    return parts


def dots(title, axis, labels, series, marks=(), bands=None):
    """One row for each label. `series`: [(name or None: not in the legend, colour, filled, {label: value})]; `marks`:
    [(value, text)], dashed lines; `bands`: {label: (low, high)}, a grey background to a row."""
    height = _ROW * len(labels)
    parts = _frame(title, axis, height, [(name, colour, filled) for name, colour, filled, _ in series if name])
    for row, label in enumerate(labels):
        y = _TOP + _ROW * (row + 0.5)
        if bands and bands.get(label):
            low, high = (axis.at(edge) for edge in bands[label])
            parts.append(f'<rect x="{low:.1f}" y="{y - 9:.1f}" width="{high - low:.1f}" height="18" fill="#eee"/>')
        parts.append(f'<path d="M{_LEFT} {y:.1f}h{_WIDTH}" stroke="#eee"/>')
        parts.append(_text(_LEFT - 10, y + 4, label, "end"))
        for _, colour, filled, values in series:
            if values.get(label) is not None:
                fill = colour if filled else "none"
                at = axis.at(values[label])
                parts.append(
                    f'<circle cx="{at:.1f}" cy="{y:.1f}" r="4.5" stroke="{colour}" stroke-width="1.5" fill="{fill}"/>'
                )
    for value, text in marks:
        at = axis.at(value)
        parts.append(f'<path d="M{at:.1f} {_TOP}v{height}" stroke="#c0392b" stroke-dasharray="4 3"/>')
        parts.append(_text(at + 4, _TOP - 6, text, more=' fill="#c0392b"'))
    return "\n".join([*parts, "</svg>", ""])


def bars(title, axis, groups, legend, marks=()):
    """`groups`: [(label, [(colour, value, text at the bar's end)])]; `legend`: [(name, colour, filled)]."""
    thick, gap = 15, 12
    height = sum(thick * len(rows) + gap for _, rows in groups)
    parts = _frame(title, axis, height, legend)
    y = _TOP + gap / 2
    for label, rows in groups:
        parts.append(_text(_LEFT - 10, y + thick * len(rows) / 2 + 4, label, "end"))
        for colour, value, text in rows:
            start, end = axis.at(axis.low), axis.at(value)
            parts.append(
                f'<rect x="{start:.1f}" y="{y + 1}" width="{end - start:.1f}" height="{thick - 3}" fill="{colour}"/>'
            )
            inside = end > _LEFT + 0.6 * _WIDTH
            anchor, at, colour = ("end", end - 5, "white") if inside else ("start", end + 5, "#333")
            parts.append(_text(at, y + thick - 4, text, anchor, f' font-size="11" fill="{colour}"'))
            y += thick
        y += gap
    for value, text in marks:
        at = axis.at(value)
        parts.append(f'<path d="M{at:.1f} {_TOP}v{height}" stroke="#c0392b" stroke-dasharray="4 3"/>')
        parts.append(_text(at + 4, _TOP - 6, text, more=' fill="#c0392b"'))
    return "\n".join([*parts, "</svg>", ""])
