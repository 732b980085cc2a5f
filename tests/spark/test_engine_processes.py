"""Engine processes and the attempts of one task: none of them ever sees an engine that another has left half done."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.fakes import chunks_of, in_process, job_of, told
from tests.spark.victim import STREAM, TEXT, chain
from thalweg.answers import Row
from thalweg.rdf.timestamped import join_blobs
from thalweg.spark import engine_processes
from thalweg.spark.engine_processes import RemoteEngine
from thalweg.spark.host import _arrivals
from thalweg.spark.results import rows_of
from thalweg.spark.shard_engine import Arrival, LogEntry

Log = list[LogEntry]
JOB = job_of(TEXT)


@pytest.fixture
def engine_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An engine process in a thread of this process: the path of its socket."""
    monkeypatch.setattr(engine_processes, "_POLL_SECONDS", 0.05)
    path = str(tmp_path / "k")
    end = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen(8)
        thread = threading.Thread(target=engine_processes.serve, args=(server, lambda: not end.is_set()))
        thread.start()
        yield path
        end.set()
        thread.join()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.nt"
    path.write_bytes(chain(0, 300))
    return path


def batches(file: Path) -> list[list[Arrival]]:
    chunks = chunks_of(JOB, STREAM, file, piece_bytes=3000)
    return [list(_arrivals([chunk.to_pandas()], Counter())) for chunk in chunks]


def attempt(path: str, version: int) -> RemoteEngine:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(path)
    return RemoteEngine(Connection(client.detach()), JOB, ("token", 0), (version, 0))


def finished(remote: RemoteEngine, version: int, arrivals: list[Arrival], log: Log) -> tuple[list[Row], Log]:
    """What an attempt gives, and the log after it."""
    if not remote.ready:
        for place, entry in enumerate(log):
            remote.replay(place, entry)
    blobs = [blob for _, blob in remote.batch(arrivals, 0, len(log), (version + 1, 0))]
    rows = [row for blob in blobs for row in rows_of(pa.ipc.open_stream(blob).read_all())]
    remote.close()
    new = [
        entry._replace(chunks=join_blobs([arrivals[k].chunk for k in own]))
        for _, entry, own in remote.result.entries
    ]
    return rows, log + new


def whole_attempt(path: str, version: int, arrivals: list[Arrival], log: Log) -> tuple[list[Row], Log]:
    return finished(attempt(path, version), version, arrivals, log)


def test_a_second_attempt_never_gets_the_engine_of_the_first(engine_process: str, file: Path) -> None:
    """A batch that was done but not committed, one that breaks off, and one that goes on while another waits."""
    rows: list[Row] = []
    log: Log = []
    ready = []
    for version, arrivals in enumerate(batches(file)):
        if version % 4 == 1:  # done, and its commit is lost
            whole_attempt(engine_process, version, arrivals, log)
        if version % 4 == 2:  # breaks off before the batch
            attempt(engine_process, version).close()
        if version % 4 == 3:  # breaks off within it, while the next one is waiting already
            first = attempt(engine_process, version)
            first._channel.send(("batch", (arrivals, 0, len(log), (version + 1, 0))))
            first.close()
        remote = attempt(engine_process, version)
        ready.append(remote.ready)
        told_now, log = finished(remote, version, arrivals, log)
        rows += told_now
    assert ready[:5] == [False, False, False, False, True]
    assert told(rows) == told(in_process(JOB, {STREAM: file}))


def test_two_attempts_at_once_give_the_same(engine_process: str, file: Path) -> None:
    rows: list[Row] = []
    log: Log = []
    for version, arrivals in enumerate(batches(file)):
        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(whole_attempt, engine_process, version, arrivals, log) for _ in range(2)]
            made = [call.result() for call in calls]
        assert told(made[0][0]) == told(made[1][0])
        told_now, log = made[1]
        rows += told_now
    assert told(rows) == told(in_process(JOB, {STREAM: file}))


def test_an_engine_process_that_ended_just_now_is_replaced(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take a call and end before it answers: after ten quiet minutes, or by a kill."""
    calls = []

    def channel(key: engine_processes.ShardKey) -> Connection:
        ours, theirs = socket.socketpair()
        calls.append(key)
        if len(calls) == 1:
            theirs.close()
        else:
            threading.Thread(target=lambda: _served(theirs)).start()
        return Connection(ours.detach())

    monkeypatch.setattr(engine_processes, "_channel", channel)
    monkeypatch.setattr(engine_processes, "IN_PROCESSES", True)
    with engine_processes.engine(JOB, ("token", 0), (0, 0)) as engine:
        assert list(engine.batch(batches(file)[0], 0, 0, (1, 0)))
    assert len(calls) == 2


def _served(own: socket.socket) -> None:
    with Connection(own.detach()) as channel:
        engine_processes._answer(channel, engine_processes.EngineCache())


def test_a_process_that_has_ended_is_not_alive_before_its_parent_has_collected_it() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    end = time.monotonic() + 10
    while engine_processes._alive(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert not engine_processes._alive(child)
    os.waitpid(child, 0)
    assert not engine_processes._alive(child)
    assert engine_processes._alive(os.getpid())


def test_a_long_name_of_the_temporary_folder_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a socket has at most 107 bytes."""
    long = tmp_path / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    folder = engine_processes._folder()
    try:
        assert len(str(folder / f".{'0' * 16}-99-4194304")) <= 107
    finally:
        with suppress(OSError):
            folder.rmdir()
    monkeypatch.setattr(engine_processes, "_LONGEST_BASE", 10**6)
    assert engine_processes._channel(("0" * 32, 0)) is None
    assert list(long.iterdir()) == []
