"""The journal of a service on Spark: what it has taken, in order, as files that a streaming query reads.

A record is events of a stream, a watermark, or an order to register or drop a query. Its number grows from record to
record; Spark's offsets are places in the files. The journal is made of the log of the service: what a crash takes from
its end is written again when the log is read.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from thalweg.errors import DataError
from thalweg.spark.encode import CHUNK_ARROW
from thalweg.spark.routing import EVENTS
from thalweg.spark.set_engine import ADVANCE, ORDER

SLICE_SCHEMA = "path string, start long, end long"
_HEAD = struct.Struct("<IIqHH")
"""Size and checksum of what follows the head; number, kind, and bytes of the name of the stream."""
_KINDS = (EVENTS, ADVANCE, ORDER)
_SUFFIX = ".journal"
_ROLL = 64 << 20
"""Bytes after which records go to another file."""
_BATCH = 64 << 20
"""Bytes of a batch at most, but for its last record."""
_READ = 1 << 20
_ROWS = 1024


class DamagedJournalError(DataError):
    """A journal that lacks what was in it."""


class Record(NamedTuple):
    """A record: its number, what it is, the stream that it concerns, and its content."""

    number: int
    kind: str
    stream: str
    content: bytes


class Place(NamedTuple):
    """A place between two records: the file, bytes in it, and the number of the record before."""

    file: int
    at: int
    number: int

    def to_json(self) -> dict[str, int]:
        """As an offset of Spark."""
        return self._asdict()


FIRST = Place(1, 0, 0)
"""Before all records."""


class Journal:
    """The writing side, in the process of the service."""

    def __init__(self, folder: Path, *, roll: int = _ROLL) -> None:
        """Opens the journal of a folder; a record that breaks off at the end goes."""
        self.folder = folder
        self._roll = roll
        folder.mkdir(parents=True, exist_ok=True)
        files = files_of(folder) or [FIRST.file]
        self.last = FIRST.number
        """The number of the last record."""
        self._open(files[-1])
        for number, end in _scanned(self._file):
            self.last, self._size = number, end
        os.ftruncate(self._file, self._size)
        if not self._size and len(files) > 1:  # it was begun, and nothing written to it
            with open(path_of(folder, files[-2]), "rb") as before:
                self.last = max(number for number, _ in _scanned(before.fileno()))

    def _open(self, number: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(path_of(self.folder, number), flags, 0o600)
        self._number, self._size = number, 0

    def append(self, number: int, kind: str, stream: str, content: bytes) -> None:
        """Writes a record with a number above that of the last one; if the disk does not take it, it is not there."""
        assert number > self.last, "records are in order"
        if self._size >= self._roll:
            os.fdatasync(self._file)
            os.close(self._file)
            self._open(self._number + 1)
        name = stream.encode()
        body = name + content
        head = _HEAD.pack(len(body), zlib.crc32(body), number, _KINDS.index(kind), len(name))
        view, at = memoryview(head + body), self._size
        try:
            while view:
                done = os.pwrite(self._file, view, at)
                at += done
                view = view[done:]
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size, self.last = at, number

    def sync(self) -> None:
        """Waits until the disk has all records: the log that they are made of goes."""
        os.fdatasync(self._file)
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def forget(self, file: int) -> None:
        """Removes the files before one: Spark has done with them."""
        for one in files_of(self.folder):
            if one < min(file, self._number):
                path_of(self.folder, one).unlink()

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def path_of(folder: Path, number: int) -> Path:
    """The file with a number."""
    return folder / f"{number:09d}{_SUFFIX}"


def files_of(folder: Path) -> list[int]:
    """The numbers of all files, in order."""
    return sorted(int(path.name.removesuffix(_SUFFIX)) for path in folder.glob(f"*{_SUFFIX}"))


def _scanned(file: int) -> Iterator[tuple[int, int]]:
    """The numbers of the whole records of a file, with their ends."""
    at = 0
    while len(head := os.pread(file, _HEAD.size, at)) == _HEAD.size:
        size, check, number, _, _ = _HEAD.unpack(head)
        body = os.pread(file, size, at + _HEAD.size)
        if len(body) < size or zlib.crc32(body) != check:
            return
        at += _HEAD.size + size
        yield number, at


def records(path: str, start: int, end: int) -> Iterator[Record]:
    """The records of a part of a file."""
    with open(path, "rb", buffering=_READ) as file:
        file.seek(start)
        while start < end:
            head = file.read(_HEAD.size)
            if len(head) == _HEAD.size:
                size, check, number, kind, named = _HEAD.unpack(head)
                body = file.read(size)
                if len(body) == size and zlib.crc32(body) == check:
                    yield Record(number, _KINDS[kind], body[:named].decode(), body[named:])
                    start += _HEAD.size + size
                    continue
            raise DamagedJournalError(f"the journal is damaged at byte {start:,}", source=path)


def reached(folder: Path, start: Place, limit: int = _BATCH) -> Place:
    """The place after the records that follow a place: so many bytes of them at most, at least one if there is one."""
    place, taken = start, 0
    for one in files_of(folder):  # a file that has another one after it is complete
        if one < start.file:
            continue
        if one > place.file:
            place = Place(one, 0, place.number)
        file = os.open(path_of(folder, one), os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(file).st_size
            while taken < limit and len(head := os.pread(file, _HEAD.size, place.at)) == _HEAD.size:
                length, _, number, _, _ = _HEAD.unpack(head)
                end = place.at + _HEAD.size + length
                if end > size:
                    break
                taken += end - place.at
                place = Place(one, end, number)
        finally:
            os.close(file)
        if taken >= limit:
            break
    return place


class JournalSource(DataSource):
    """The data source of a journal: a row is a part of a file."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "thalweg-journal"

    def schema(self) -> str:
        """Parts of files: their bytes are read where they are used."""
        return SLICE_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The planner of batches."""
        return JournalReader(Path(self.options["path"]))


class Slice(InputPartition):
    """A part of a file."""

    def __init__(self, path: str, start: int, end: int) -> None:
        self.path, self.start, self.end = path, start, end


class JournalReader(DataSourceStreamReader):
    """Plans micro-batches over a journal. Lives on the driver."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Before the first record."""
        return FIRST.to_json()

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: N802
        """The end of the next batch."""
        return reached(self._folder, Place(**start)).to_json()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The parts of files between two places."""
        first, after = Place(**start), Place(**end)
        found: list[InputPartition] = []
        for one in files_of(self._folder):
            if first.file <= one <= after.file:
                path = path_of(self._folder, one)
                begin = first.at if one == first.file else 0
                stop = after.at if one == after.file else path.stat().st_size
                if begin < stop:
                    found.append(Slice(str(path), begin, stop))
        return found

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """The row of one task."""
        assert isinstance(partition, Slice)
        yield partition.path, partition.start, partition.end

    def commit(self, end: dict[str, int]) -> None:
        """The service removes files that are done."""

    def stop(self) -> None:
        """Nothing is held open."""


def journal_encoder(keys: Sequence[int]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: parts of files to chunks, a copy of each record for each key of a shard."""

    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.to_pylist():
                taken: list[Record] = []
                for record in records(part["path"], part["start"], part["end"]):
                    taken.append(record)
                    if len(taken) == _ROWS:
                        yield _rows(taken, keys)
                        taken = []
                if taken:
                    yield _rows(taken, keys)

    return encode


def _rows(taken: Sequence[Record], keys: Sequence[int]) -> pa.RecordBatch:
    rows = [
        {
            "key": key,
            "shard": shard,
            "stream": record.stream,
            "source": "",
            "seq": record.number,
            "part": 0,
            "syntax": record.kind,
            "last": False,
            "bytes": 0 if shard else len(record.content),
            "statements": 0,
            "kept": 0,
            "sent": 0,
            "reading": 0,
            "chunk": record.content,
        }
        for record in taken
        for shard, key in enumerate(keys)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=CHUNK_ARROW)


def committed(checkpoint: Path) -> int:
    """The number of the last batch that Spark has noted as done; -1 where there is none."""
    folder = checkpoint / "commits"
    return (
        max((int(name) for name in os.listdir(folder) if name.isdigit()), default=-1)
        if folder.is_dir()
        else -1
    )


def end_of_batch(checkpoint: Path, batch: int) -> Place | None:
    """Where a batch ends that Spark has planned; None where its offsets are not there any more."""
    try:
        lines = (checkpoint / "offsets" / str(batch)).read_text("utf-8").splitlines()
    except OSError:
        return None
    return Place(**json.loads(lines[2]))
