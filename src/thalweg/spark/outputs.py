"""The outputs of a run on Spark: files that hold each batch once, whatever is killed and whenever.

A batch is added to the files before Spark notes that it is done, so that Spark may run it again. The ledger, a file
beside the checkpoint, has the lengths of all outputs after each of the last two batches. The first batch of a run
cuts them to where the batch before it had left them.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

from thalweg.errors import UsageError
from thalweg.io.job import Job
from thalweg.io.records import Records
from thalweg.io.writers import Writer
from thalweg.rows import Row
from thalweg.spark.checkpoints import replace_file

FORMAT = 1
NAME = "thalweg-outputs.json"
_TAIL = 4096
_NONE = -1
"""The number of the batch before the first."""


class Mark(NamedTuple):
    """The length of a file, and a checksum of the bytes before it: by both it is known again."""

    length: int
    check: int

    @classmethod
    def of(cls, path: Path, length: int | None = None) -> Mark | None:
        """The mark of a file, at its end or at a length; None where it is shorter or not there."""
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                end = size if length is None else length
                if end > size:
                    return None
                start = max(0, end - _TAIL)
                file.seek(start)
                return cls(end, zlib.crc32(file.read(end - start)))
        except FileNotFoundError:
            return cls(0, zlib.crc32(b"")) if not length else None


Marks = dict[str, Mark]


class Ledger:
    """How long outputs were after each of the last two batches of a run."""

    def __init__(self, folder: Path, outputs: Iterable[Path]) -> None:
        """A ledger of files; what is no file, as the standard output, has none."""
        self.file = folder / NAME
        self.outputs = [path.absolute() for path in outputs if _is_file(path)]
        self.batches: dict[int, Marks] = self._read()
        self._cut = False

    def check(self) -> None:
        """Refuse outputs that are not those of the run which goes on."""
        for path in self.outputs:
            marks = [marks[str(path)] for marks in self.batches.values() if str(path) in marks]
            if marks:
                self._require(path, marks[0])
            elif self.batches and path.exists() and path.stat().st_size:
                raise UsageError(
                    "the file is there, and it is no output of the run that goes on: name another or move it away",
                    source=str(path),
                )

    def begin(self, *, append: bool) -> None:
        """Note, before outputs are made, that whatever is in those that the run begins belongs to no batch."""
        if not append:
            self.batches = {_NONE: {}}
        elif not self.batches:  # a checkpoint of earlier days: what is there stays
            return
        new = {str(path): Mark(0, zlib.crc32(b"")) for path in self.outputs}
        if any(new.keys() - marks.keys() for marks in self.batches.values()):
            self._write({number: {**new, **marks} for number, marks in self.batches.items()})

    def forget(self) -> None:
        """Take back what was noted for a run that has done nothing."""
        self.file.unlink(missing_ok=True)

    def cut(self, batch: int) -> bool:
        """At the first batch of a run, take back what outputs have of it and later ones; whether it was the first."""
        if self._cut:
            return False
        self._cut = True
        if not self.batches:
            self._write({batch - 1: self._marks()})
            return True
        before = self.batches.get(batch - 1)
        if before is None:
            raise UsageError(
                f"batch {batch} is next, and the lengths of the outputs are noted after batch {max(self.batches)}: "
                "start with a new checkpoint directory and new outputs",
                source=str(self.file),
            )
        for name, mark in before.items():
            path = Path(name)
            if path in self.outputs:
                self._require(path, mark)
            elif Mark.of(path, mark.length) != mark:
                continue  # an output of earlier runs, which somebody has changed or taken away since
            if path.exists() and path.stat().st_size > mark.length:
                self._move_tail(path, mark.length, batch)
        return True

    def _move_tail(self, path: Path, length: int, batch: int) -> None:
        """Cut a file. What is cut off goes to a file beside the checkpoint: somebody else may have added to it."""
        names = (self.file.with_name(f"thalweg-cut-{batch}-{k}-{path.name}") for k in count())
        kept = next(name for name in names if not name.exists())
        with path.open("rb") as source, kept.open("wb") as target:
            source.seek(length)
            shutil.copyfileobj(source, target)
        _sync(kept)
        os.truncate(path, length)
        print(
            f"thalweg: {path}: rows of a batch that was not committed were moved to {kept}", file=sys.stderr
        )

    def note(self, batch: int) -> None:
        """Note that a batch is in the outputs."""
        for path in self.outputs:
            _sync(path)
        kept = {number: marks for number, marks in self.batches.items() if number == batch - 1}
        self._write({**kept, batch: self._marks()})

    def _marks(self) -> Marks:
        found = {str(path): Mark.of(path) for path in self.outputs}
        return {name: mark for name, mark in found.items() if mark is not None}

    def _require(self, path: Path, mark: Mark) -> None:
        if Mark.of(path, mark.length) != mark:
            raise UsageError(
                f"the output of the run that goes on had {mark.length:,} bytes, and now it is another file: "
                "put it back, or name another output",
                source=str(path),
            )

    def _read(self) -> dict[int, Marks]:
        try:
            values = json.loads(self.file.read_bytes())
            if values["format"] == FORMAT:
                return {
                    int(number): {path: Mark(*mark) for path, mark in marks.items()}
                    for number, marks in sorted(values["batches"].items(), key=lambda item: int(item[0]))
                }
            reason = f"has format {values['format']}, and this is format {FORMAT}"
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            reason = "cannot be read"
        raise UsageError(
            f"the record of the outputs {reason}: start with a new checkpoint directory and new outputs",
            source=str(self.file),
        )

    def _write(self, batches: dict[int, Marks]) -> None:
        self.batches = batches
        values = {"format": FORMAT, "batches": {str(number): marks for number, marks in batches.items()}}
        replace_file(self.file, json.dumps(values).encode())


class Sinks:
    """Where the batches of a run go: results, malformed input and late events."""

    def __init__(self, job: Job, folder: Path, ledger: Ledger | None = None, *, append: bool = False) -> None:
        """Outputs of a job; tasks leave what they set aside in a folder."""
        self.rows = self.gaps = 0
        self._job = job
        self._whole: Writer | None = None
        """The writer of a format that cannot be added to: it stays open to the end of the run."""
        self.ledger = ledger
        if ledger is not None:
            if append:
                ledger.check()
            ledger.begin(append=append)
        writer = job.open_writer(append=append)
        if writer.appends:
            writer.close()
        else:
            self._whole = writer
        self.quarantine = SideOutput(folder / "quarantine", job.outputs.quarantine, append)
        self.late = SideOutput(folder / "late", job.outputs.late, append)

    @staticmethod
    def paths(job: Job) -> list[Path]:
        """The outputs of a job that have names."""
        outputs = job.outputs
        named = (outputs.results, outputs.quarantine, outputs.late)
        return [path for path in named if path is not None and str(path) != "-"]

    @contextmanager
    def batch(self, number: int) -> Iterator[None]:
        """A batch: what is written within is in the outputs afterwards, and is noted there as of this batch."""
        if self.ledger is not None and self.ledger.cut(number) and self._whole is None:
            # What heads a file may have been cut off with the rest.
            self._job.open_writer(append=True).close()
        yield
        self.quarantine.collect()
        self.late.collect()
        if self.ledger is not None:
            self.ledger.note(number)

    def write(self, rows: Iterator[Row]) -> None:
        """Add the rows of a batch. A gzipped file gets a member for each batch, so that it can be cut there."""
        if self._job.query.sequence is not None:
            rows = self._with_gaps_counted(rows)
        first = next(rows, None)
        if first is None:
            return
        if self._whole is not None:
            self._whole.write(_chained(first, rows))
            self._whole.flush()
            self.rows = self._whole.rows
            return
        # Not in a `with` block: its end would hide that the reader of a pipe has gone.
        writer = self._job.open_writer(append=True)
        try:
            writer.write(_chained(first, rows))
            writer.flush()
            self.rows += writer.rows
        except BaseException as failure:
            writer.__exit__(type(failure), failure, None)
            raise
        writer.close()

    def _with_gaps_counted(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            self.gaps += row.op == "gap"
            yield row

    def close(self) -> None:
        """Complete a file that is written as a whole."""
        if self._whole is not None:
            self._whole.close()


class SideOutput:
    """Records that tasks leave as files in a folder, brought into one output with the batch that they are of."""

    def __init__(self, folder: Path, output: Path | None, append: bool = False) -> None:
        self.folder, self.output = folder, output
        self.records = Records(None)
        """Counts them."""
        self._seen: set[str] = set()
        Records(output, append=append).close()

    def collect(self) -> None:
        """Take over files that are new: a batch that ran again has only written its file again."""
        records: list[Any] = []
        for file in sorted(self.folder.glob("*.jsonl")):
            if file.name not in self._seen:
                self._seen.add(file.name)
                with file.open(encoding="utf-8") as lines:
                    records += map(json.loads, lines)
        if records:
            self.records.write(records)
            out = Records(self.output, append=True)
            try:
                out.write(records)
            finally:
                out.close()


def _chained(first: Row, rest: Iterator[Row]) -> Iterator[Row]:
    yield first
    yield from rest


def _is_file(path: Path) -> bool:
    """Whether a path is, or will be, a file that can be cut."""
    try:
        return S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True


def _sync(path: Path) -> None:
    if path.exists():
        with path.open("rb") as file:
            os.fsync(file.fileno())
