"""Live progress of a run on the error output, and a gentle way to stop it."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from thalweg.io.job import Job


class Meter:
    """A line that shows how far a run is; silent unless asked to show."""

    def __init__(self, job: Job, show: bool) -> None:
        self._progress: Any = None
        self._task: Any = None
        if show:
            self._progress, self._task = _line(job)

    def update(self, *, size: int, triples: int, results: int) -> None:
        """Say how many bytes of text and triples were read, and how many results there are."""
        if self._progress is not None:
            self._progress.update(self._task, completed=size, triples=f"{triples:,}", results=f"{results:,}")

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
    """Ctrl-C as a wish: the first one sets `wanted`, so that a batch can end well; the second one insists."""

    def __init__(self) -> None:
        self.wanted = False
        self._before: Any = None
        self._ours = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._ours:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True


def _line(job: Job) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    files = [file for names in job.files().values() for file in names]
    # The length of the text in a gzipped file is not known before it is read.
    known = not any(file.lower().endswith(".gz") for file in files)
    total = sum(os.path.getsize(file) for file in files) if known else None
    progress = Progress(
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TextColumn("{task.fields[triples]} triples, {task.fields[results]} results"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    return progress, progress.add_task("", total=total, triples="0", results="0")
