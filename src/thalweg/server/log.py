"""The write-ahead log: records with a length and a checksum, and snapshots that shorten it.

In the data folder, `log-N` has the operations since `snapshot-N`. A snapshot is complete when it has its name; the
log before it goes afterwards.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from thalweg.errors import ThalwegError, UsageError
from thalweg.store.log import cut_off

_HEAD = struct.Struct("<II")
_MAGIC = b"TWLOG001"
_SNAPSHOT = b"TWSNAP01"
IN_PROCESS, SPARK = "in-process", "spark"
"""The engines that a data folder can be of."""
_WHERE = {IN_PROCESS: "in its own process", SPARK: "on Spark"}


class DiskError(ThalwegError):
    """The disk takes nothing: what was to be written is not acknowledged."""


class DamagedLogError(ThalwegError):
    """A log with a record that is wrong and not the last one: what follows it may have been acknowledged."""


class Log:
    """One file of records, appended to and synchronised in groups."""

    def __init__(self, path: Path, *, sync: Callable[[int], None] = os.fdatasync) -> None:
        self.path = path
        self.broken: str | None = None
        """Why nothing can be written any more, if so."""
        self._sync = sync
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self._file).st_size
        if self.size < len(_MAGIC):
            self._write(_MAGIC, 0)
            self.size = len(_MAGIC)
            sync(self._file)

    def append(self, records: Sequence[bytes], *, sync: bool = True) -> None:
        """Writes records, and waits until the disk has them; if it cannot, none of them is in the log."""
        if self.broken is not None:
            raise DiskError(self.broken)
        data = b"".join(_HEAD.pack(len(one), zlib.crc32(one)) + one for one in records)
        try:
            self._write(data, self.size)
        except OSError as error:
            self._forget(error)
        if sync:
            try:
                self._sync(self._file)
            except OSError as error:
                # The kernel may have thrown the pages away: what a second call says proves nothing.
                self.broken = (
                    f"the log could not be synchronised: {error.strerror or error}; restart the server"
                )
                raise DiskError(self.broken) from None
        self.size += len(data)

    def _write(self, data: bytes, at: int) -> None:
        view = memoryview(data)
        while view:
            done = os.pwrite(self._file, view, at)
            at += done
            view = view[done:]

    def _forget(self, error: OSError) -> None:
        """Takes back a record that was written in part."""
        reason = f"the log cannot be written: {error.strerror or error}"
        try:
            os.ftruncate(self._file, self.size)
        except OSError:
            self.broken = reason
        raise DiskError(reason) from None

    def records(self) -> Iterator[bytes]:
        """The records, in order. One that was not written to its end is moved aside: it was never acknowledged."""
        data = self.path.read_bytes()
        if data[: len(_MAGIC)] != _MAGIC:
            raise DamagedLogError("this is no log of a service", source=str(self.path))
        at = len(_MAGIC)
        while at < len(data):
            found = _record(data, at)
            if found is None:
                self._cut(data, at)
                return
            yield found
            at += _HEAD.size + len(found)

    def _cut(self, data: bytes, at: int) -> None:
        if _has_record(data, at):
            raise DamagedLogError(
                f"the record at byte {at:,} is damaged, and whole ones follow: restore the file from a copy",
                source=str(self.path),
            )
        cut_off(self.path, at)
        self.size = at

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def _record(data: bytes, at: int) -> bytes | None:
    if at + _HEAD.size > len(data):
        return None
    length, check = _HEAD.unpack_from(data, at)
    found = data[at + _HEAD.size : at + _HEAD.size + length]
    return found if len(found) == length and length and zlib.crc32(found) == check else None


def _has_record(data: bytes, at: int) -> bool:
    """Whether a whole record begins behind a place; each has a JSON object at its beginning."""
    begin = data.find(b'{"', at + _HEAD.size + 1)
    while begin >= 0:
        if _record(data, begin - _HEAD.size) is not None:
            return True
        begin = data.find(b'{"', begin + 1)
    return False


class Folder:
    """The data folder of a service: its lock, its newest snapshot and the log that follows it."""

    def __init__(
        self, path: Path, *, sync: Callable[[int], None] = os.fdatasync, engine: str = IN_PROCESS
    ) -> None:
        """`engine` is what runs the queries: a folder is always used with the same one."""
        self.path = path
        self._sync = sync
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock: IO[str] = open(path / "lock", "a")  # noqa: SIM115 - held until `close`
        except OSError as error:
            raise UsageError(
                f"the data folder cannot be used: {error.strerror or error}", source=str(path)
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise UsageError("another server uses this data folder", source=str(path)) from None
        try:
            self._check_engine(engine)
        except BaseException:
            self._lock.close()
            raise
        numbers = (int(one.name.partition("-")[2]) for one in path.glob("snapshot-*") if one.suffix != ".tmp")
        self.number = max(numbers, default=0)
        self._tidy()
        self.log = Log(self._path("log"), sync=sync)

    def _check_engine(self, engine: str) -> None:
        """Refuses a folder of another engine; a new one gets a mark."""
        mark = self.path / "engine"
        found = IN_PROCESS
        if mark.exists():
            found = mark.read_text("utf-8").strip()
        elif not any(self.path.glob("log-*")):
            found = engine
            if engine != IN_PROCESS:
                mark.write_text(f"{engine}\n", "utf-8")
        if found != engine:
            hint = "--on spark" if found == SPARK else "--on local"
            raise UsageError(
                f"the data folder is of a server that ran queries {_WHERE.get(found, found)}: give {hint}, or another "
                "folder",
                source=str(self.path),
            )

    def _path(self, kind: str, number: int | None = None) -> Path:
        return self.path / f"{kind}-{self.number if number is None else number:08d}"

    def _tidy(self) -> None:
        """Removes what an interrupted snapshot left."""
        kept = {self._path("snapshot").name, self._path("log").name}
        for one in (*self.path.glob("snapshot-*"), *self.path.glob("log-*")):
            if one.name not in kept:
                one.unlink()

    def snapshot(self) -> bytes | None:
        """The newest snapshot, or None where there is none."""
        if not self.number:
            return None
        path = self._path("snapshot")
        data = path.read_bytes()
        head, check, rest = data[:8], data[8:12], data[12:]
        if head != _SNAPSHOT or zlib.crc32(rest).to_bytes(4, "little") != check:
            raise DamagedLogError("the snapshot is damaged: restore the file from a copy", source=str(path))
        return rest

    def write_snapshot(self, data: bytes) -> None:
        """Writes a snapshot, and begins a new log; if the disk takes it not, the old ones go on."""
        number = self.number + 1
        path, temporary = self._path("snapshot", number), self._path("snapshot", number).with_suffix(".tmp")
        log = None
        try:
            log = Log(self._path("log", number), sync=self._sync)
            with open(temporary, "wb") as file:
                file.write(_SNAPSHOT + zlib.crc32(data).to_bytes(4, "little"))
                file.write(data)
                file.flush()
                self._sync(file.fileno())
            self._sync_folder()
            os.rename(temporary, path)
            self._sync_folder()
        except OSError as error:
            if log is not None:
                log.close()
            reason = f"the snapshot cannot be written: {error.strerror or error}"
            if path.exists():  # the next start takes it, and would not see what is logged from now on
                self.log.broken = f"{reason}; restart the server"
            else:
                for one in (temporary, self._path("log", number)):
                    one.unlink(missing_ok=True)
            raise DiskError(reason) from None
        self.log.close()
        self.number, self.log = number, log
        self._tidy()

    def keep(self, name: str, data: bytes) -> None:
        """Keeps data in a file of its own, for people; a disk that does not take it is no error."""
        with contextlib.suppress(OSError):
            (self.path / name).write_bytes(data)

    def _sync_folder(self) -> None:
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Closes the log, and lets another server have the folder."""
        self.log.close()
        self._lock.close()
