"""The log of a store: records of events in files that only grow, each one whole or not there."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from zlib import crc32

from thalweg.errors import DataError, warn

_FRAME = struct.Struct("<4sIII")  # magic, sizes of the head and of the body, checksum of both
_MAGIC = b"TWS1"
SEGMENT = 64 << 20
"""Bytes after which a new file is begun."""


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a record without reading its body."""

    stream: str
    rows: int
    events: int
    deletes: int
    first: int
    """The earliest time of its events, in microseconds."""
    last: int
    writer: str | None = None
    number: int | None = None
    """How far the writer has come with this record."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record: its head, and where its body is."""

    head: Head
    segment: int
    start: int
    """Where the frame begins."""
    body: int
    """Where the body begins."""
    size: int
    """Bytes of the body."""
    checksum: int

    @property
    def end(self) -> int:
        """Where the next record begins."""
        return self.body + self.size


class Log:
    """Records in the segments of a folder, in the order in which they were appended.

    `append` returns when the record is on disk. A record that was not wholly written when the process or the machine
    stopped is moved aside when the log is opened; damage anywhere else is refused.
    """

    def __init__(self, folder: Path, *, segment: int = SEGMENT) -> None:
        self.folder = folder
        self._limit = segment
        folder.mkdir(parents=True, exist_ok=True)
        self.records: list[Record] = []
        numbers = sorted(int(path.stem) for path in folder.glob("[0-9]*.log"))
        for number in numbers:
            self.records += _scan(self._path(number), number, is_last=number == numbers[-1])
        self._number = numbers[-1] if numbers else 0
        self._out = os.open(self._path(self._number), os.O_RDWR | os.O_CREAT, 0o644)
        self._end = os.lseek(self._out, 0, os.SEEK_END)
        sync_folder(folder)
        self._files: dict[int, int] = {}

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.log"

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(path.stat().st_size for path in self.folder.glob("[0-9]*.log"))

    def append(self, head: Head, body: bytes) -> Record:
        """Add a record; when this returns, it is on disk. If it cannot be written, nothing has changed."""
        if self._end >= self._limit:
            self._begin_segment()
        shown = {key: value for key, value in asdict(head).items() if value is not None}
        front = json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()
        checksum = crc32(body, crc32(front))
        data = memoryview(_FRAME.pack(_MAGIC, len(front), len(body), checksum) + front + body)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(self._out, data[written:], self._end + written)
            os.fdatasync(self._out)
        except OSError:
            os.ftruncate(self._out, self._end)
            raise
        at = self._end + _FRAME.size + len(front)
        record = Record(head, self._number, self._end, at, len(body), checksum)
        self._end += len(data)
        self.records.append(record)
        return record

    def _begin_segment(self) -> None:
        out = os.open(self._path(self._number + 1), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        os.close(self._out)
        self._out, self._end = out, 0
        self._number += 1
        sync_folder(self.folder)

    def body(self, record: Record) -> bytes:
        """The body of a record; damage is refused."""
        file = self._files.get(record.segment)
        if file is None:
            file = self._files[record.segment] = os.open(self._path(record.segment), os.O_RDONLY)
        data = os.pread(file, record.end - record.start, record.start)
        front = data[_FRAME.size : record.body - record.start]
        body = data[record.body - record.start :]
        if crc32(body, crc32(front)) != record.checksum:
            raise _damaged(self._path(record.segment), record.start)
        return body

    def close(self) -> None:
        """Close the files."""
        for file in (self._out, *self._files.values()):
            os.close(file)
        self._files.clear()


def _scan(path: Path, number: int, *, is_last: bool) -> Iterator[Record]:
    """The records of a segment. The unfinished record at the end of the last one is moved aside."""
    size = path.stat().st_size
    at = 0
    with path.open("rb") as file:
        while at < size:
            found = _record(file.read(_FRAME.size), number, at)
            if found is not None and found[0] + found[1] + at + _FRAME.size <= size:
                front_size, body_size, checksum = found
                front = file.read(front_size)
                start = at
                at += _FRAME.size + front_size + body_size
                # What was appended last may have been on its way when the machine stopped.
                if is_last and at == size and crc32(file.read(body_size), crc32(front)) != checksum:
                    cut_off(path, start)
                    return
                try:
                    head = Head(**json.loads(front))
                except (ValueError, TypeError):
                    raise _damaged(path, start) from None
                yield Record(head, number, start, at - body_size, body_size, checksum)
                file.seek(at)
                continue
            file.seek(at)
            rest = file.read()
            # A frame that goes beyond the end, a part of one, or blocks that were reserved and never written. No whole
            # record stands behind them: it would be lost, as the size in a damaged frame can be anything.
            torn = found is not None or len(rest) < _FRAME.size or not rest.strip(b"\0")
            if not is_last or not torn or _has_record(rest):
                raise _damaged(path, at)
            cut_off(path, at)
            return


def _record(frame: bytes, number: int, at: int) -> tuple[int, int, int] | None:
    """Sizes of head and body, and the checksum; None where no frame begins."""
    if len(frame) < _FRAME.size:
        return None
    magic, front, body, checksum = _FRAME.unpack(frame)
    return (front, body, checksum) if magic == _MAGIC else None


def _has_record(data: bytes) -> bool:
    """Whether a whole record begins somewhere behind the first of some bytes."""
    at = data.find(_MAGIC, 1)
    while at >= 0:
        found = _record(data[at : at + _FRAME.size], 0, 0)
        if found is not None:
            begin = at + _FRAME.size
            end = begin + found[0] + found[1]
            if end <= len(data) and crc32(data[begin:end]) == found[2]:
                return True
        at = data.find(_MAGIC, at + 1)
    return False


def cut_off(path: Path, at: int) -> None:
    """Cut off what a log has from a place on, and keep it in a file beside the log: `cut-NAME-PLACE`.

    It is a record that was not written to its end, so that nobody was told that it is there; or a damaged one.
    """
    with path.open("rb+") as file:
        file.seek(at)
        rest = file.read()
        aside = path.with_name(f"cut-{path.name}-{at}")
        with aside.open("wb") as kept:
            kept.write(rest)
            kept.flush()
            os.fsync(kept.fileno())
        sync_folder(path.parent)
        file.truncate(at)
        os.fsync(file.fileno())
    warn(
        f"{path}: the last record is incomplete or damaged, and was moved to {aside.name} ({len(rest):,} bytes)"
    )


def _damaged(path: Path, at: int) -> DataError:
    return DataError(f"the store is damaged: the record at byte {at} cannot be read", source=str(path))


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
