"""Engine processes: they hold the engines of shards between batches, beside Spark's Python workers.

Spark gives a task to any of its workers, so that an engine kept in a worker would often not be where the next batch of
its shard goes. A worker that needs the engine of a shard finds its engine process by a socket in a private folder,
or starts one by a fork of itself. An engine is used only at exactly the version of the state (number and digest). A
batch that breaks off leaves no engine behind. Engine processes end with the process that starts Spark's workers, or
after some time without a request.
"""

from __future__ import annotations

import os
import select
import shutil
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

from thalweg.errors import ThalwegError
from thalweg.spark.second_engine import SecondEngine
from thalweg.spark.set_engine import SetEngine
from thalweg.spark.set_plan import SetPlan
from thalweg.spark.shard_engine import Arrival, BatchResult, LogEntry, Positions, ShardEngine
from thalweg.spark.shard_plan import SecondPlan, ShardPlan, StagePlan

ShardKey = tuple[str, int]
StateVersion = tuple[int, int]
IDLE_SECONDS = float(os.environ.get("THALWEG_ENGINE_IDLE_SECONDS", "600"))
"""Seconds without a request after which an engine process ends."""
_POLL_SECONDS = 2.0
_LONGEST_BASE = 44
"""Bytes of the name of the temporary folder: with those of a socket in it there are at most 107."""


class Engine(Protocol):
    """The engine of a shard, in this process or in another."""

    @property
    def ready(self) -> bool:
        """Whether it has the version of the state."""

    @property
    def result(self) -> BatchResult:
        """The result of the last batch."""

    def open(self, positions: Positions) -> None:
        """Prepare an engine that is not ready for the log before these positions."""

    def replay(self, place: int, entry: LogEntry) -> None:
        """Feed an entry of the log to an engine that is not ready."""

    def resume(self, positions: Positions) -> None:
        """Go on from the positions of the state."""

    def batch(
        self, arrivals: Sequence[Arrival], now: int, place: int, after: StateVersion
    ) -> Iterator[tuple[int, bytes]]:
        """Apply a batch: shards of the next stage and what is packed for them, then `result`.

        The engine then has the version `after`.
        """


StageEngine = ShardEngine | SecondEngine


def _engine_of(plan: StagePlan, shard: int) -> StageEngine:
    """A new engine for a shard of a stage."""
    if isinstance(plan, SetPlan):
        return SetEngine(plan, shard)
    if isinstance(plan, SecondPlan):
        return SecondEngine(plan, shard)
    assert isinstance(plan, ShardPlan), "there are three kinds of plans"
    return ShardEngine(plan, shard)


class EngineCache:
    """A cache of the engines of one process, by shard."""

    def __init__(self) -> None:
        self._engines: dict[ShardKey, tuple[StateVersion, StageEngine]] = {}

    def take(self, key: ShardKey, version: StateVersion) -> StageEngine | None:
        """The engine with exactly this version, which leaves the cache; one with another is dropped."""
        found = self._engines.pop(key, None)
        return found[1] if found is not None and found[0] == version else None

    def put(self, key: ShardKey, version: StateVersion, engine: StageEngine) -> None:
        """Keep an engine for the next batch."""
        self._engines[key] = version, engine


ENGINES = EngineCache()


class LocalEngine:
    """The engine of a shard in this process."""

    def __init__(self, plan: StagePlan, key: ShardKey, version: StateVersion, cache: EngineCache) -> None:
        self._key, self._cache = key, cache
        found = cache.take(key, version)
        self.ready = found is not None
        self._engine = found or _engine_of(plan, key[1])

    @property
    def result(self) -> BatchResult:
        """The result of the batch."""
        return self._engine.result

    def open(self, positions: Positions) -> None:
        """Prepare the engine for the log before these positions."""
        self._engine.open(positions)

    def replay(self, place: int, entry: LogEntry) -> None:
        """Feed an entry of the log."""
        self._engine.replay(place, entry)

    def resume(self, positions: Positions) -> None:
        """Go on from the positions of the state."""
        self._engine.resume(positions)

    def batch(
        self, arrivals: Sequence[Arrival], now: int, place: int, after: StateVersion
    ) -> Iterator[tuple[int, bytes]]:
        """Apply a batch."""
        yield from self._engine.batch(arrivals, now, place)
        self._cache.put(self._key, after, self._engine)


class RemoteEngine:
    """The engine of a shard in its engine process."""

    def __init__(self, channel: Connection, plan: StagePlan, key: ShardKey, version: StateVersion) -> None:
        self._channel = channel
        channel.send((plan, key, version))
        ready = channel.recv()
        if isinstance(ready, Exception):
            channel.close()
            raise ready
        self.ready: bool = ready
        self.result = BatchResult()

    def open(self, positions: Positions) -> None:
        """Prepare the engine for the log before these positions."""
        self._channel.send(("open", (positions,)))

    def replay(self, place: int, entry: LogEntry) -> None:
        """Feed an entry of the log."""
        self._channel.send(("replay", (place, entry)))

    def resume(self, positions: Positions) -> None:
        """Go on from the positions of the state."""
        self._channel.send(("resume", (positions,)))

    def batch(
        self, arrivals: Sequence[Arrival], now: int, place: int, after: StateVersion
    ) -> Iterator[tuple[int, bytes]]:
        """Apply a batch."""
        self._channel.send(("batch", (arrivals, now, place, after)))
        while True:
            kind, value = self._channel.recv()
            if kind == "blob":
                yield value
            elif kind == "result":
                self.result = value
                return
            else:
                raise value

    def close(self) -> None:
        """End the requests; an engine within a batch is dropped."""
        self._channel.close()


@contextmanager
def engine(plan: StagePlan, key: ShardKey, version: StateVersion) -> Iterator[Engine]:
    """The engine of a shard for one batch."""
    remote = _connect(plan, key, version) if IN_PROCESSES else None
    if remote is None:
        yield LocalEngine(plan, key, version, ENGINES)
        return
    try:
        yield remote
    except (EOFError, ConnectionError):
        raise RuntimeError(
            f"the engine process of shard {key[1]} ended within a batch; the task can be run again"
        ) from None
    finally:
        remote.close()


def _connect(plan: StagePlan, key: ShardKey, version: StateVersion) -> RemoteEngine | None:
    """The engine in the engine process of a shard; None where no such process can be started."""
    for _ in range(2):
        channel = _channel(key)
        if channel is None:
            return None
        try:
            return RemoteEngine(channel, plan, key, version)
        except (EOFError, ConnectionError):
            # An engine process that ended just now: after some time without a request, or because it was killed.
            channel.close()
    return None


IN_PROCESSES = hasattr(os, "fork")


def _channel(key: ShardKey) -> Connection | None:
    """A connection to the engine process of a shard, started if there is none; None where that is impossible."""
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
            with suppress(OSError):
                path.parent.rmdir()  # unless others use it
            return None
    return None


def _folder() -> Path:
    """The folder of the sockets, of this user and of the processes that have the same parent as this one."""
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) > _LONGEST_BASE and os.access("/tmp", os.W_OK):
        base = "/tmp"
    folder = Path(base) / f"thalweg-{os.getuid()}-{os.getppid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.stat()
    if state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise OSError(f"{folder} is open to others")
    return folder


def _start(path: Path) -> None:
    """Start an engine process that listens at a path."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    draft.unlink(missing_ok=True)
    server.bind(str(draft))
    server.listen(8)
    parent = os.getppid()
    sys.stdout.flush()
    # Reap the engine processes that this worker has started and that have ended.
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    if os.fork() == 0:
        _run_engine_process(server, path, parent)
    draft.replace(path)
    server.close()


def _run_engine_process(server: socket.socket, path: Path, parent: int) -> NoReturn:
    failed = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _release_files(keep=server.fileno())
        serve(server, lambda: _alive(parent))
        failed = 0
    finally:
        # Nothing of the worker may run in its copy, whatever happened: the next batch starts another process.
        with suppress(OSError):
            path.unlink(missing_ok=True)
            if not _alive(
                parent
            ):  # nobody uses the folder any more: a worker that was killed may have left a draft
                shutil.rmtree(path.parent, ignore_errors=True)
            path.parent.rmdir()
        os._exit(failed)


def _release_files(keep: int) -> None:
    """Close the files of the worker, its connection to Spark among them; their numbers stay taken, so that code which
    closes one of them closes none of ours.
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
    """Whether a process runs; one that has ended does not, also while its parent has not collected it (a zombie)."""
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:  # no /proc here
        return True
    except OSError:
        return False
    return state[0] not in ("Z", "X")


def serve(server: socket.socket, wanted: Callable[[], bool]) -> None:
    """Answer requests, one after the other, while `wanted` and up to IDLE_SECONDS after the last one."""
    cache = EngineCache()
    asked = time.monotonic()
    while wanted() and time.monotonic() - asked < IDLE_SECONDS:
        if not select.select([server], [], [], _POLL_SECONDS)[0]:
            continue
        client, _ = server.accept()
        # Where the worker is gone, its engine went with the request.
        with Connection(client.detach()) as channel, suppress(EOFError, OSError):
            _answer(channel, cache)
        asked = time.monotonic()


def _answer(channel: Connection, cache: EngineCache) -> None:
    plan, key, version = channel.recv()
    try:
        local = LocalEngine(plan, key, version, cache)
    except ThalwegError as failure:  # static data that are not there
        channel.send(failure)
        return
    channel.send(local.ready)
    while True:
        kind, parts = channel.recv()
        if kind == "open":
            local.open(*parts)
        elif kind == "replay":
            local.replay(*parts)
        elif kind == "resume":
            local.resume(*parts)
        else:
            break
    try:
        for blob in local.batch(*parts):
            channel.send(("blob", blob))
        channel.send(("result", local.result))
    except OSError:
        raise
    except Exception as failure:
        channel.send(("failure", failure))
