"""Live progress of a run on stderr, and a stop at the end of a batch."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from thalweg.io.job import Job
from thalweg.rdf.compression import compression_of


class Meter:
    """A progress line, if `show` is set. A run that follows its files has no known end."""

    def __init__(self, job: Job, show: bool, follow: bool = False) -> None:
        self._progress: Any = None
        self._task: Any = None
        if show:
            self._progress, self._task = _line(None if follow else _size(job))

    def update(self, *, size: int, triples: int, results: int, more: str = "") -> None:
        """Show how many bytes of text and triples were read, how many results there are, and `more`."""
        if self._progress is not None:
            text = f"{triples:,} triples, {results:,} results" + (f", {more}" if more else "")
            self._progress.update(self._task, completed=size, text=text)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


class Interrupts:
    """Handlers of SIGINT and SIGTERM: the first signal sets `wanted`, so that a batch can end; the second raises."""

    def __init__(self, wanted: bool = False) -> None:
        self.wanted = wanted
        self._before: dict[int, Any] = {}
        self._ours = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._ours:
            self._before = {
                number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)
            }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True


def _size(job: Job) -> int | None:
    """The length of all text; None where that is not known before it is read, as in a compressed file."""
    files = [file for names in job.files().values() for file in names]
    known = not any(map(compression_of, files))
    return job.options.loop * sum(os.path.getsize(file) for file in files) if known else None


def _line(total: int | None) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    return progress, progress.add_task("", total=total, text="0 triples, 0 results")
