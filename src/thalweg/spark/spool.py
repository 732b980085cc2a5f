"""Spools: what arrives from live sources, as files in a folder that Spark follows.

Spark reads files: tasks that fail are run again, and need the same bytes again. So the driver writes what arrives
to files first. Lines are appended to a file; a document becomes a file of its own when it is complete. With a
checkpoint the files are kept beside it, so that a run that was killed goes on with what had arrived.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from thalweg.io.job import Job
from thalweg.io.live import LivePieces, open_live
from thalweg.rdf.formats import Format

_FOLDER = "spool"
_ROLL = 256 << 20
"""Bytes after which lines go to another file."""


class Spool:
    """One live source and the folder of its files."""

    def __init__(self, address: str, folder: Path, format: Format) -> None:
        self.folder = folder
        self.failure: BaseException | None = None
        self._format = format
        self._pieces = LivePieces(open_live(address), lines=format.splittable)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._write, name="thalweg-spool", daemon=True)

    @property
    def ended(self) -> bool:
        """Whether everything that will ever arrive is in the files."""
        return self._done.is_set()

    @property
    def broken(self) -> str | None:
        """How the source broke off, if it did."""
        return self._pieces.rejects[0].reason if self._pieces.rejects else None

    def start(self) -> None:
        """Connect, and write from now on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._pieces.start(lambda: None)
        self._thread.start()

    def stop(self) -> None:
        """Take no more, and finish what has arrived."""
        self._pieces.stop()
        if self._thread.is_alive():
            self._thread.join(5)

    def _write(self) -> None:
        try:
            if self._format.splittable:
                self._write_lines()
            elif self._pieces.messages:
                self._write_documents(bytes(data) for _, data in self._pieces)
            else:
                self._write_documents(iter([b"".join(bytes(data) for _, data in self._pieces)]))
        except BaseException as failure:
            self.failure = failure
        finally:
            self._done.set()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:09}.{self._format.name}"

    def _next(self) -> int:
        numbers = [int(path.stem) for path in self.folder.glob("[0-9]*")]
        return max(numbers, default=-1) + 1

    def _write_lines(self) -> None:
        arrived = (data for _, data in self._pieces)
        data = next(arrived, None)
        number = self._next()
        while data is not None:
            with open(self._path(number), "ab") as file:
                while data is not None and file.tell() < _ROLL:
                    file.write(data)
                    file.flush()
                    data = next(arrived, None)
            number += 1

    def _write_documents(self, documents: Iterator[bytes]) -> None:
        for number, data in enumerate(documents, self._next()):
            draft = self.folder / f".{number:09}"
            draft.write_bytes(data)
            os.replace(draft, self._path(number))


class Spools:
    """The spools of a job: none for a job over files."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._of = {
            stream: Spool(
                job.inputs[stream],
                folder / _FOLDER / hashlib.sha256(stream.encode()).hexdigest()[:16],
                job.options.format_for(job.inputs[stream]),
            )
            for stream in job.live
        }

    def __bool__(self) -> bool:
        return bool(self._of)

    def inputs(self, job: Job) -> dict[str, str]:
        """The path of each stream, where live ones have the folder of their files."""
        return {
            stream: str(self._of[stream].folder) if stream in self._of else path
            for stream, path in job.inputs.items()
        }

    @property
    def ended(self) -> bool:
        """Whether all live sources have ended; one that failed raises."""
        for spool in self._of.values():
            if spool.failure is not None:
                raise spool.failure
        return all(spool.ended for spool in self._of.values())

    def broken(self) -> list[str]:
        """How sources broke off."""
        return [spool.broken for spool in self._of.values() if spool.broken is not None]

    def __enter__(self) -> Spools:
        for spool in self._of.values():
            spool.start()
        return self

    def __exit__(self, *failure: object) -> None:
        for spool in self._of.values():
            spool.stop()
