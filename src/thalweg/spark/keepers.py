"""Keepers: processes that hold the live engines of shards between batches, beside Spark's Python workers.

Spark gives a task to any of its workers, so that an engine kept in a worker would often not be where the next batch of
its shard goes. A worker that needs the engine of a shard finds its keeper by a socket in a private folder, or starts
one by a fork of itself. An engine is used only at exactly the mark (version and digest) that the state has. A batch
that breaks off leaves no engine behind. Keepers end with the process that starts Spark's workers, or when nobody has
asked for a while.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn, Protocol

from thalweg.spark.jobs import Job
from thalweg.spark.live import Arrival, Entry, Live, Standing, Turn

Key = tuple[str, int]
Mark = tuple[int, int]
PATIENCE = float(os.environ.get("THALWEG_KEEPER_SECONDS", "600"))
"""Seconds without a request after which a keeper ends."""
_LOOK = 2.0


class Engine(Protocol):
    """The engine of a shard, wherever it lives."""

    @property
    def ready(self) -> bool:
        """Whether it stands where the state does."""

    @property
    def turn(self) -> Turn:
        """What the last batch did."""

    def replay(self, place: int, entry: Entry) -> None:
        """Feed an entry of the log to an engine that is not ready."""

    def resume(self, standing: Standing) -> None:
        """Go to where the state stands."""

    def batch(self, arrivals: Sequence[Arrival], now: int, place: int, after: Mark) -> Iterator[bytes]:
        """Apply a batch: packed results, then `turn`; the engine then has the mark `after`."""


class Shelf:
    """Engines of one process by shard."""

    def __init__(self) -> None:
        self._engines: dict[Key, tuple[Mark, Live]] = {}

    def take(self, key: Key, mark: Mark) -> Live | None:
        """The engine with exactly this mark, off the shelf; one with another is dropped."""
        found = self._engines.pop(key, None)
        return found[1] if found is not None and found[0] == mark else None

    def put(self, key: Key, mark: Mark, live: Live) -> None:
        """Keep an engine for the next batch."""
        self._engines[key] = mark, live


SHELF = Shelf()


class Here:
    """The engine of a shard in this process."""

    def __init__(self, job: Job, key: Key, mark: Mark, shelf: Shelf) -> None:
        self._key, self._shelf = key, shelf
        found = shelf.take(key, mark)
        self.ready = found is not None
        self._live = found or Live(job, key[1])

    @property
    def turn(self) -> Turn:
        """What the batch did."""
        return self._live.turn

    def replay(self, place: int, entry: Entry) -> None:
        """Feed an entry of the log."""
        self._live.replay(place, entry)

    def resume(self, standing: Standing) -> None:
        """Go to where the state stands."""
        self._live.resume(standing)

    def batch(self, arrivals: Sequence[Arrival], now: int, place: int, after: Mark) -> Iterator[bytes]:
        """Apply a batch."""
        yield from self._live.batch(arrivals, now, place)
        self._shelf.put(self._key, after, self._live)


class There:
    """The engine of a shard in its keeper."""

    def __init__(self, channel: Connection, job: Job, key: Key, mark: Mark) -> None:
        self._channel = channel
        channel.send((job, key, mark))
        self.ready: bool = channel.recv()
        self.turn = Turn()

    def replay(self, place: int, entry: Entry) -> None:
        """Feed an entry of the log."""
        self._channel.send(("replay", (place, entry)))

    def resume(self, standing: Standing) -> None:
        """Go to where the state stands."""
        self._channel.send(("resume", (standing,)))

    def batch(self, arrivals: Sequence[Arrival], now: int, place: int, after: Mark) -> Iterator[bytes]:
        """Apply a batch."""
        self._channel.send(("batch", (arrivals, now, place, after)))
        while True:
            kind, value = self._channel.recv()
            if kind == "blob":
                yield value
            elif kind == "turn":
                self.turn = value
                return
            else:
                raise value

    def close(self) -> None:
        """Nothing more will be asked; an engine within a batch is given up."""
        self._channel.close()


@contextmanager
def engine(job: Job, key: Key, mark: Mark) -> Iterator[Engine]:
    """The engine of a shard for one batch."""
    there = _reach(job, key, mark) if IN_KEEPERS else None
    if there is None:
        yield Here(job, key, mark, SHELF)
        return
    try:
        yield there
    except (EOFError, ConnectionError):
        raise RuntimeError(
            f"the process that keeps the engine of shard {key[1]} ended within a batch; the task can be run again"
        ) from None
    finally:
        there.close()


def _reach(job: Job, key: Key, mark: Mark) -> There | None:
    """The engine in the keeper of a shard; None where there can be no keepers."""
    for _ in range(2):
        channel = _channel(key)
        if channel is None:
            return None
        try:
            return There(channel, job, key, mark)
        except (EOFError, ConnectionError):
            # A keeper that ended just now: because nobody had asked for a while, or because it was killed.
            channel.close()
    return None


IN_KEEPERS = hasattr(os, "fork")


def _channel(key: Key) -> Connection | None:
    """A connection to the keeper of a shard, which is started if there is none; None where that cannot be."""
    try:
        path = _folder() / f"{key[0][:16]}-{key[1]}"
    except OSError:
        return None
    for _ in range(2):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.connect(str(path))
            return Connection(client.detach())
        except OSError:
            client.close()
        try:
            _start(path)
        except OSError:
            return None
    return None


def _folder() -> Path:
    """The folder of the sockets, of this user and of the processes that have the same parent as this one."""
    folder = Path(tempfile.gettempdir()) / f"thalweg-{os.getuid()}-{os.getppid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.stat()
    if state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise OSError(f"{folder} is open to others")
    return folder


def _start(path: Path) -> None:
    """Start a keeper that listens at a path."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    draft.unlink(missing_ok=True)
    server.bind(str(draft))
    server.listen(8)
    parent = os.getppid()
    sys.stdout.flush()
    # Keepers that this worker has started and that have ended are let go.
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    if os.fork() == 0:
        _be_a_keeper(server, path, parent)
    draft.replace(path)
    server.close()


def _be_a_keeper(server: socket.socket, path: Path, parent: int) -> NoReturn:
    failed = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _let_go(keep=server.fileno())
        serve(server, lambda: _alive(parent))
        failed = 0
    finally:
        # Nothing of the worker may run in its copy, whatever happened: the next batch starts another keeper.
        with suppress(OSError):
            path.unlink(missing_ok=True)
            path.parent.rmdir()
        os._exit(failed)


def _let_go(keep: int) -> None:
    """Give up the files of the worker, its way to Spark among them; their numbers stay taken, so that nobody who
    closes one of them closes one of ours.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else range(256):
        number = int(name)
        if number not in (1, 2, keep, nothing):
            try:
                os.fstat(number)
                os.dup2(nothing, number)
            except OSError:
                continue


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def serve(server: socket.socket, wanted: Callable[[], bool]) -> None:
    """Answer requests, one after the other, for as long as somebody may ask."""
    shelf = Shelf()
    asked = time.monotonic()
    while wanted() and time.monotonic() - asked < PATIENCE:
        if not select.select([server], [], [], _LOOK)[0]:
            continue
        client, _ = server.accept()
        # Where the worker is gone, its engine went with the request.
        with Connection(client.detach()) as channel, suppress(EOFError, OSError):
            _answer(channel, shelf)
        asked = time.monotonic()


def _answer(channel: Connection, shelf: Shelf) -> None:
    job, key, mark = channel.recv()
    here = Here(job, key, mark, shelf)
    channel.send(here.ready)
    while True:
        kind, parts = channel.recv()
        if kind == "replay":
            here.replay(*parts)
        elif kind == "resume":
            here.resume(*parts)
        else:
            break
    try:
        for blob in here.batch(*parts):
            channel.send(("blob", blob))
        channel.send(("turn", here.turn))
    except OSError:
        raise
    except Exception as failure:
        channel.send(("failure", failure))
