"""The demo: an evening in a small grid, streamed through Spark, with alarms as they are found."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from thalweg.errors import ThalwegError
from thalweg.instants import show_instant
from thalweg.rows import Row
from thalweg.testing.generate import GRID, smart_grid

STREAM = f"{GRID}readings"
QUERY = f"""\
PREFIX grid: <{GRID}>
REGISTER ISTREAM <{GRID}alarms> AS
SELECT ?house ?plug ?feeder
FROM STREAM <{STREAM}> [RANGE 60s]
WHERE {{
  ?plug  grid:load   grid:Overload ; grid:in ?house .
  ?meter grid:supply grid:Dip      ; grid:in ?house .
  ?house grid:fedBy  ?feeder .
}}
"""
HOUSES = 40
PARTS = 8


def run(*, readings: int = 200_000, seed: int = 0, console: Console | None = None) -> None:
    """Generate the stream, start Spark, and print what the query finds while it finds it."""
    from thalweg.spark import require_java, session

    require_java()
    console = console or Console()
    console.print("[bold]An evening in a small grid[/]")
    console.print(
        f"{HOUSES} houses report what their plugs draw and how steady their supply is.\n"
        "One query waits for a plug that draws too much and a dip in its house,\n"
        "within a minute of each other:\n"
    )
    console.print(QUERY, style="cyan", highlight=False)
    with (
        tempfile.TemporaryDirectory(prefix="thalweg-demo-", ignore_cleanup_errors=True) as name,
        quiet(Path(name) / "spark.log"),
    ):
        stream = Path(name) / "stream"
        with console.status("Writing the stream, starting Spark in local mode ..."):
            size = write_stream(stream, readings, PARTS, seed)
            spark = session("thalweg-demo")
        try:
            _print_matches(spark, stream, size, console)
        finally:
            spark.stop()


@contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Send what the JVM and its workers chat on the error output to a file; show it only after a failure."""
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    except ThalwegError:  # has a sentence of its own
        raise
    except Exception:
        os.write(kept, log.read_bytes())
        raise
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def write_stream(folder: Path, readings: int, parts: int, seed: int) -> int:
    """The stream as files that follow each other in a folder; the bytes of all of them."""
    folder.mkdir()
    pieces = list(smart_grid(readings, houses=HOUSES, seed=seed))
    many = -(-len(pieces) // parts)
    size = 0
    for number, first in enumerate(range(0, len(pieces), many)):
        text = "".join(pieces[first : first + many])
        size += (folder / f"part-{number:03}.nq").write_bytes(text.encode())
    return size


def alarm(at: int, bindings: Mapping[str, str]) -> str:
    """One match as a line of text.

    >>> names = {"house": "house/3", "plug": "plug/3-1", "feeder": "feeder/0"}
    >>> alarm(61_000_000, {name: f"<{GRID}{last}>" for name, last in names.items()})
    '00:01:01  house 3: plug 3-1 draws too much and the supply dips (feeder 0)'
    """
    clock = show_instant(at).partition("T")[2][:8]
    last = {name: text.rstrip(">").rpartition("/")[2] for name, text in bindings.items()}
    plug, house, feeder = last["plug"], last["house"], last["feeder"]
    return f"{clock}  house {house}: plug {plug} draws too much and the supply dips (feeder {feeder})"


def _print_matches(spark: Any, folder: Path, size: int, console: Console) -> None:
    """Run the query to the end of the files, one file a batch."""
    from thalweg.spark import run_files

    found = 0
    marks: list[tuple[float, int]] = []  # when a batch had been done, and the statements up to then
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("the workers start ...", total=size)

        def show(rows: Iterator[Row]) -> None:
            nonlocal found
            for row in rows:
                found += 1
                progress.console.print(alarm(row.at, row.bindings), highlight=False)

        def note(sums: dict[str, Any]) -> None:
            marks.append((time.monotonic(), sums["statements"]))
            text = f"{sums['statements']:,} statements, {found} alarms"
            progress.update(task, completed=sums["bytes"], description=text)

        begin = time.monotonic()
        one_file = {"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "none"}
        run_files(QUERY, {STREAM: str(folder)}, show, spark=spark, progress=note, source=one_file)
    console.print(closing(begin, marks, size, found), style="bold", highlight=False)


def closing(begin: float, marks: list[tuple[float, int]], size: int, found: int) -> str:
    """The last line: all of it, and the rate of the stream once the workers ran.

    >>> closing(0.0, [(4.0, 100_000), (5.0, 900_000), (6.0, 900_000)], 120_000_000, 7)
    '900,000 statements (120 MB) in 6.0 s, 7 alarms; after the first batch 800,000 statements per second.'
    """
    (end, statements) = marks[-1]
    line = f"{statements:,} statements ({size / 1e6:.0f} MB) in {end - begin:.1f} s, {found} alarms"
    # The first batch starts the workers, and the last may only note the end of the files.
    busy = [mark for mark, before in zip(marks[1:], marks, strict=False) if mark[1] > before[1]]
    if busy and busy[-1][0] > marks[0][0]:
        rate = (busy[-1][1] - marks[0][1]) / (busy[-1][0] - marks[0][0])
        line += f"; after the first batch {rate:,.0f} statements per second"
    return line + "."
