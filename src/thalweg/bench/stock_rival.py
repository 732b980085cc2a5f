"""Esper as the rival of the stock suite: the same trades, equal answers, CPU seconds of one thread there and here.

Its program is compiled when it is asked for. Maven downloads Esper (GPL 2) then; nothing of it is distributed.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from thalweg.bench.report import Report

COMPANIES = 100
_SECONDS = 900


class UnavailableError(Exception):
    """The rival cannot be run here, and why."""


def build(folder: Path) -> str:
    """Compiles the program in a folder; answers its class path."""
    for tool in ("mvn", "javac", "java"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"{tool} is not installed")
    source = files("thalweg.bench") / "rivals"
    for name in ("pom.xml", "StockOnEsper.java"):
        (folder / name).write_text((source / name).read_text())
    _run(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"], folder)
    _run(["javac", "-cp", "lib/*", "StockOnEsper.java"], folder)
    return f"{folder}/lib/*:{folder}"


def _run(command: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{command[0]} took more than {_SECONDS} seconds") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise UnavailableError(f"{command[0]} failed: {said[0][:200]}")
    return done.stdout


def measure(
    report: Report,
    trades: list[tuple[int, int]],
    windows: tuple[int, ...],
    ours: Callable[[str, int], tuple[float, int, int]],
) -> None:
    """The ratio for each window and operator; `ours` answers our seconds, matches, and the sum over them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            path = build(folder)
            (folder / "trades.csv").write_text("".join(f"{c},{p}\n" for c, p in trades))
            for operator in ";,":
                for window in windows:
                    command = ["java", "-Xmx2g", "-cp", path, "StockOnEsper", "trades.csv"]
                    said = _run([*command, operator, str(window)], folder).split()
                    theirs, found, total = float(said[0]), int(said[1]), int(said[2])
                    seconds, matches, checked = ours(operator, window)
                    equal = (matches, checked) == (found, total)
                    report.add(
                        "Esper 8.9",
                        f"SEQ(A{operator} B{operator} C), {COMPANIES} companies, window {window}",
                        theirs / seconds if equal else float("nan"),
                        "x its speed",
                        note=f"{found:,} matches there, {matches:,} here; {len(trades) / theirs / 1000:.0f} against "
                        f"{len(trades) / seconds / 1000:.0f} k events/s"
                        + ("" if equal else "; the answers differ"),
                    )
        except UnavailableError as reason:
            report.console.print(f"  Esper was not run: {reason}", highlight=False)
