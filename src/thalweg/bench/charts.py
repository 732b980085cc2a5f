"""Line charts of figures, as SVG files."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

_WIDE, _HIGH, _LEFT, _TOP, _RIGHT, _BOTTOM = 720, 420, 70, 50, 190, 55
_COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#8e5ea2", "#b8860b", "#555555")


@dataclass
class Chart:
    """Points by series: x on a logarithmic axis, y from 0 on."""

    title: str
    across: str
    upward: str
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, name: str, x: float, y: float) -> None:
        """Adds a point to a series."""
        self.series.setdefault(name, []).append((x, y))

    @property
    def file_name(self) -> str:
        """The title as a name."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") + ".svg"

    def svg(self) -> str:
        """The chart as a document."""
        points = [point for many in self.series.values() for point in many]
        xs = sorted({x for x, _ in points})
        top = _rounded_up(max((y for _, y in points), default=1.0))
        low, high = math.log(xs[0]), math.log(xs[-1])

        def place(x: float, y: float) -> tuple[float, float]:
            share = (math.log(x) - low) / (high - low) if high > low else 0.5
            across = _LEFT + share * (_WIDE - _LEFT - _RIGHT)
            return round(across, 1), round(_HIGH - _BOTTOM - y / top * (_HIGH - _TOP - _BOTTOM), 1)

        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" font-family="sans-serif">',
            f'<rect width="{_WIDE}" height="{_HIGH}" fill="white"/>',
            _text(_LEFT, 28, self.title, size=15),
            _text((_LEFT + _WIDE - _RIGHT) / 2, _HIGH - 12, self.across, anchor="middle"),
            _text(_LEFT, _TOP - 8, self.upward),
        ]
        for step in range(5):
            x, y = place(xs[0], top * step / 4)
            parts.append(f'<path d="M{_LEFT} {y}H{_WIDE - _RIGHT}" stroke="#dddddd"/>')
            parts.append(_text(_LEFT - 8, y + 4, f"{top * step / 4:,g}", anchor="end"))
        for value in xs:
            x, y = place(value, 0)
            parts.append(_text(x, y + 18, f"{value:,g}", anchor="middle"))
        for number, (name, many) in enumerate(self.series.items()):
            colour = _COLOURS[number % len(_COLOURS)]
            spots = [place(x, y) for x, y in sorted(many)]
            line = " ".join(f"{x},{y}" for x, y in spots)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
            parts += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in spots]
            parts.append(_text(_WIDE - _RIGHT + 15, _TOP + 20 * number + 10, name, fill=colour))
        return "\n".join([*parts, "</svg>\n"])


def write_charts(charts: list[Chart], folder: Path) -> list[Path]:
    """Writes each chart into a folder; answers the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for chart in charts:
        path = folder / chart.file_name
        path.write_text(chart.svg())
        written.append(path)
    return written


def _text(
    x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", fill: str = "#222222"
) -> str:
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'


def _rounded_up(value: float) -> float:
    """The next number of the form 1, 2, 4 or 8 times a power of ten.

    >>> _rounded_up(1.7), _rounded_up(430), _rounded_up(900)
    (2.0, 800.0, 1000.0)
    """
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(k * power for k in (1, 2, 4, 8, 10) if k * power >= value)
