"""Figures: what was measured, what was hoped for, and the machine it ran on."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from thalweg.bench.charts import Chart


@dataclass(frozen=True)
class Figure:
    """One number. `target` is the least (or, with `at_most`, the most) that we want it to be."""

    group: str
    name: str
    value: float
    unit: str
    target: float | None = None
    at_most: bool = False
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if self.target is None:
            return None
        return self.value <= self.target if self.at_most else self.value >= self.target


@dataclass
class Report:
    """The figures of one run."""

    suite: str
    figures: list[Figure] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    console: Console = field(default_factory=lambda: Console(stderr=True, soft_wrap=True))

    def add(self, group: str, name: str, value: float, unit: str, **more: object) -> Figure:
        """Notes a figure and shows it at once: a long run should not be silent."""
        figure = Figure(group, name, value, unit, **more)  # type: ignore[arg-type]
        self.figures.append(figure)
        self.console.print(f"  {group}: {name}  [bold]{_number(value)}[/] {unit}", highlight=False)
        return figure

    def chart(self, title: str, across: str, upward: str) -> Chart:
        """A new chart, for `--plots`."""
        self.charts.append(Chart(title, across, upward))
        return self.charts[-1]

    def table(self) -> Table:
        """All figures, grouped."""
        table = Table(title=f"thalweg bench {self.suite}", show_lines=False)
        for heading in ("", "figure", "value", "unit", "target", "", "note"):
            table.add_column(heading, justify="right" if heading in ("value", "target") else "left")
        last = None
        for figure in self.figures:
            group = figure.group if figure.group != last else ""
            if last is not None and group:
                table.add_section()
            last = figure.group
            target = ""
            if figure.target is not None:
                target = ("<= " if figure.at_most else ">= ") + _number(figure.target)
            mark = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[figure.met]
            table.add_row(group, figure.name, _number(figure.value), figure.unit, target, mark, figure.note)
        return table

    def write(self, path: Path) -> None:
        """The same as JSON, with the machine and the versions."""
        content = {
            "suite": self.suite,
            "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": {
                "cpus": os.cpu_count(),
                "processor": platform.machine(),
                "python": platform.python_version(),
                **{name: version(name) for name in ("numba", "numpy", "pyspark", "pyoxigraph", "thalweg")},
            },
            "figures": [asdict(figure) | {"met": figure.met} for figure in self.figures],
        }
        path.write_text(json.dumps(content, indent=1) + "\n")


def _number(value: float) -> str:
    if value != value:
        return "?"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def best_seconds(work: Callable[[], object], repeat: int = 3) -> float:
    """The shortest of several runs: the one least disturbed by others."""
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def resident_bytes() -> int:
    """Memory of this process as the system counts it; 0 where that cannot be told."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
