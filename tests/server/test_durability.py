"""What was acknowledged is there after a crash, and rows keep their numbers."""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.serving import ALL, PAIRS, Clock, S, Served, serving, triple
from thalweg.engine import Session
from thalweg.errors import ThalwegWarning, UsageError
from thalweg.server.log import DamagedLogError, DiskError, Folder, Log
from thalweg.server.service import Service


def crashed(served: Served, path: Path) -> Path:
    """A copy of the data folder as a crash at this moment leaves it."""
    shutil.copytree(served.service.folder.path, path, ignore=shutil.ignore_patterns("lock"))
    return path


def pages(served: Served) -> Any:
    found = served.client("GET", "/queries").json["items"], served.client("GET", "/streams").json["items"]
    for one in found[1]:
        one.pop("events_per_second")
    return found


@pytest.mark.parametrize("snapshots", [False, True])
def test_everything_is_there_after_a_crash(tmp_path: Path, snapshots: bool) -> None:
    size = 500 if snapshots else 1 << 20
    with serving(tmp_path / "a", snapshot_bytes=size) as served:
        client = served.client
        client.stream(retention="1h")
        client("PUT", "/static", "<http://ex/x> <http://ex/p> <http://ex/y> .", "text/turtle")
        one = client.register(PAIRS, lease="10m").json["id"]
        renamed = PAIRS.replace("?a", "?first")
        two = client.register(renamed).json["id"]
        dropped = client.register(ALL).json["id"]
        client.post(triple("a", "b") + "broken\n" + triple("b", "c"), at=1000)
        client("DELETE", f"/queries/{dropped}")
        client.post(triple("c", "d"), at=2000)
        client.post(triple("late", "er"), at=1)
        before = pages(served), client.results(one), client.results(two)
        assert len(before[1]) == 2
        if snapshots:
            assert served.service.counters["snapshots"] > 2
        copy = crashed(served, tmp_path / "b")
    with serving(copy) as again:
        assert (pages(again), again.client.results(one), again.client.results(two)) == before
        assert again.client.register(PAIRS).json["plan"] not in [one["plan"] for one in before[0][0]]
        again.client.post(triple("d", "e"), at=3000)
        assert [row["id"] for row in again.client.results(one)] == [1, 2, 3]
    with serving(copy) as third:
        third.client.post("", more="&advance=1970-01-01T00:01:00Z")
        assert [row["op"] for row in third.client.results(two)] == ["+"] * 3 + ["-"] * 3


def test_rows_that_a_restart_makes_again_are_there_after_the_next_one(tmp_path: Path) -> None:
    with serving(tmp_path / "a") as served:
        id = served.client.register(ALL).json["id"]
        size = served.service.folder.log.size
        served.client.post(triple("a", "b"), at=1)
        copy = crashed(served, tmp_path / "b")
    log = copy / "log-00000000"
    event, rows = list(Log(log).records())[-2:]
    assert b'"results"' in rows
    log.write_bytes(log.read_bytes()[: size + 8 + len(event)])  # a crash before the rows were written
    for number in (2, 3, 4):
        with serving(copy) as served:
            served.client.post(triple(number, "b"), at=number)
            copy = crashed(served, tmp_path / str(number))
            expected = served.client.results(id)
        assert len(expected) == number
        with serving(copy) as again:
            assert again.client.results(id) == expected


def test_rows_that_the_log_did_not_take_are_there_once_after_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Log.append

    def full(self: Log, records: Any, *, sync: bool = True) -> None:
        if not sync:
            raise DiskError("the log cannot be written: No space left on device")
        append(self, records)

    with serving(tmp_path / "a") as served:
        id = served.client.register(ALL).json["id"]
        monkeypatch.setattr(Log, "append", full)
        served.client.post(triple("a", "b"), at=1)
        monkeypatch.undo()
        served.service.look(lambda state: served.service._snapshot()).result()
        served.client.post(triple("c", "d"), at=2)
        expected = served.client.results(id)
        copy = crashed(served, tmp_path / "b")
    with serving(copy) as again:
        assert again.client.results(id) == expected
        assert [row["id"] for row in expected] == [1, 2]


def test_a_lease_lasts_over_a_restart(tmp_path: Path) -> None:
    clock = Clock()
    with serving(tmp_path, clock=clock) as served:
        short, long = (served.client.register(ALL, lease=lease).json["id"] for lease in ("5s", "10m"))
        expires = served.client("GET", f"/queries/{long}").json["expires"]
    clock.now += 60_000
    with serving(tmp_path, clock=clock) as served:
        assert served.client("GET", f"/queries/{long}").json["expires"] == expires
        clock.now += 4_000  # its clients could not renew it while the server was down
        served.service.tick()
        assert served.client("PUT", f"/queries/{short}/lease", {}).status == 200
        clock.now += 5_000
        served.service.tick()
        assert served.client("PUT", f"/queries/{short}/lease", {}).status == 404


def test_a_second_server_refuses_the_folder(served: Served) -> None:
    with pytest.raises(UsageError, match="another server"):
        Service(served.service.folder.path)


class FullDisk:
    """Writes that fail in the middle, as long as the disk is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        write = os.pwrite

        def pwrite(file: int, data: Any, at: int) -> int:
            if self.full and len(data) > 3:
                if len(data) < 20:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return write(file, data[: len(data) // 2], at)
            return write(file, data, at)

        monkeypatch.setattr("thalweg.server.log.os.pwrite", pwrite)


def test_a_full_disk_is_503_and_acknowledges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk(monkeypatch)
    with serving(tmp_path / "a") as served:
        id = served.client.register(ALL).json["id"]
        served.client.post(triple("a", "b"), at=1)
        disk.full = True
        refused = served.client.post(triple("c", "d"), at=2)
        assert (refused.status, "No space" in refused.json["error"]) == (503, True)
        assert served.client.register(PAIRS).status == 503
        assert len(served.client.results(id)) == 1
        assert served.client("GET", "/queries").json["count"] == 1
        disk.full = False
        assert served.client.post(triple("e", "f"), at=3).status == 200
        copy = crashed(served, tmp_path / "b")
        rows = served.client.results(id)
    with serving(copy) as again:
        assert again.client.results(id) == rows
        assert [row["bindings"]["a"] for row in rows] == ["<http://ex/a>", "<http://ex/e>"]


def test_a_disk_that_cannot_be_synchronised_ends_writing(tmp_path: Path) -> None:
    fails = False

    def sync(file: int) -> None:
        if fails:
            raise OSError(errno.EIO, "Input/output error")

    with serving(tmp_path, folder=lambda path: Folder(path, sync=sync)) as served:
        served.client.register(ALL)
        assert served.client("GET", "/health").status == 200
        fails = True
        assert served.client.post(triple("a", "b"), at=1).status == 503
        fails = False
        assert served.client.post(triple("a", "b"), at=1).status == 503
        health = served.client("GET", "/health")
        assert (health.status, "restart" in health.json["reason"]) == (503, True)


@settings(max_examples=30)
@given(
    records=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    cut=st.integers(0, 60),
    noise=st.binary(max_size=12),
)
def test_a_log_without_its_end_has_the_records_before_it(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], cut: int, noise: bytes
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    log = Log(path)
    ends = [log.size]
    for record in records:
        log.append([record])
        ends.append(log.size)
    log.close()
    kept = max(ends[0], log.size - cut)
    path.write_bytes(path.read_bytes()[:kept] + noise)
    whole = sum(end <= kept for end in ends) - 1
    log = Log(path)
    found = list(log.records())
    assert found[:whole] == records[:whole]
    assert len(found) == whole or noise
    log.append([b"more"])
    assert list(log.records())[len(found) :] == [b"more"]
    log.close()


@pytest.mark.parametrize("place", [8, 10, 11, 12, 16, 30])
def test_a_record_that_is_damaged_in_the_middle_is_refused(tmp_path: Path, place: int) -> None:
    log = Log(tmp_path / "log")
    log.append([b'{"kind": "one"}', b'{"kind": "two"}', b'{"kind": "three"}'])
    log.close()
    data = bytearray((tmp_path / "log").read_bytes())
    data[place] ^= 65  # in the length, the checksum or the text of the first record
    (tmp_path / "log").write_bytes(data)
    with pytest.raises(DamagedLogError, match="damaged"):
        list(Log(tmp_path / "log").records())
    assert (tmp_path / "log").read_bytes() == data


def test_a_last_record_that_is_damaged_is_moved_aside(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append([b'{"kind": "one"}'])
    end = log.size
    log.append([b'{"kind": "two"}'])
    log.close()
    data = bytearray((tmp_path / "log").read_bytes())
    data[-1] ^= 1
    (tmp_path / "log").write_bytes(data)
    with pytest.warns(ThalwegWarning, match="moved to cut-log-31"):
        assert list(Log(tmp_path / "log").records()) == [b'{"kind": "one"}']
    assert (tmp_path / "cut-log-31").read_bytes() == data[end:]
    assert (tmp_path / "log").read_bytes() == data[:end]


def poisoned(monkeypatch: pytest.MonkeyPatch, *terms: str) -> None:
    """An engine with an error: it breaks in the middle of a push with some term."""
    push = Session.push_events

    def broken(self: Session, batch: Any) -> None:
        texts = self.arena.texts(batch.rows.o)
        push(self, batch)
        if any(f"<http://ex/{term}>" in texts for term in terms):
            raise ZeroDivisionError("an error of the engine")

    monkeypatch.setattr(Session, "push_events", broken)


def test_an_operation_that_breaks_the_engine_is_set_aside_and_the_server_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned(monkeypatch, "poison", "venom")
    with serving(tmp_path / "a") as served:
        client = served.client
        id = client.register(ALL).json["id"]
        client.post(triple(1, "o"), at=1)
        subscribed = client.events(id, after=0)
        assert json.loads(next(subscribed)["data"])["bindings"]["a"] == "<http://ex/1>"
        hold = threading.Event()
        looked = served.service.look(lambda state: hold.wait(30))
        operation = {"stream": S, "per_event": None}
        bodies = [(2, "o"), ("x", "poison"), (3, "o"), ("y", "venom"), (4, "o")]
        found = [
            # Other formats are not taken together with those before them.
            served.service.events(
                {**operation, "at": 2000 + k, "format": ("nt", "turtle")[k % 2]}, triple(*body).encode()
            )
            for k, body in enumerate(bodies)
        ]
        hold.set()
        looked.result(30)
        errors = [one.exception(30) for one in found]
        assert [error is None for error in errors] == [True, False, True, False, True]
        assert "ZeroDivisionError" in str(errors[1])
        assert [event["event"] for event in subscribed] == ["end"]
        assert client.post(triple(5, "o"), at=5).status == 200
        broken = client.post(triple("z", "poison"), at=6)
        assert (broken.status, "ZeroDivisionError" in broken.json["error"]) == (500, True)
        assert client.post(triple(7, "o"), at=7).status == 200
        rows = client.results(id)
        assert [row["bindings"]["a"] for row in rows] == [f"<http://ex/{n}>" for n in (1, 2, 3, 4, 5, 7)]
        assert [row["id"] for row in rows] == list(range(1, 7))
        assert served.service.healthy is None
        kept = sorted((tmp_path / "a").glob("failed-*"))
        assert [b"poison" in one.read_bytes() for one in kept] == [True, False, True]
        copy = crashed(served, tmp_path / "b")
    monkeypatch.undo()  # what was set aside stays so
    with serving(copy) as again:
        assert again.client.results(id) == rows


def test_an_operation_of_the_log_that_breaks_the_engine_does_not_keep_the_server_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path / "a") as served:
        id = served.client.register(ALL).json["id"]
        for n, o in ((1, "o"), (2, "poison"), (3, "o")):
            assert served.client.post(triple(n, o), at=n).status == 200
        rows = served.client.results(id)
        copy = crashed(served, tmp_path / "b")
    poisoned(monkeypatch, "poison")
    for _ in range(2):
        with serving(copy) as again:
            # What subscribers have seen stays; the content does not have the event.
            assert again.client.results(id) == rows
            answer = again.client("GET", f"/queries/{id}/answer").json["rows"]
            assert {row["a"] for row in answer} == {"<http://ex/1>", "<http://ex/3>"}
            (kept,) = copy.glob("failed-*")
            assert kept.read_text() == triple(2, "poison")


def test_a_query_that_breaks_the_engine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register = Session.register

    def broken(self: Session, text: Any, **given: Any) -> Any:
        found = register(self, text, **given)
        if "rare" in found.query.text:
            raise ZeroDivisionError("an error of the engine")
        return found

    monkeypatch.setattr(Session, "register", broken)
    with serving(tmp_path) as served:
        client = served.client
        id = client.register(ALL).json["id"]
        assert client.register(ALL.replace("/p>", "/rare>")).status == 500
        assert client("GET", "/queries").json["count"] == len(served.state.session.queries) == 1
        client.post(triple(1, "o"), at=1)
        assert len(client.results(id)) == 1


def test_a_snapshot_that_fails_after_it_has_its_name_ends_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def failing(file: int) -> None:
        if any((tmp_path / "a").glob("snapshot-*[0-9]")):
            raise OSError(errno.EIO, "Input/output error")
        fsync(file)

    with serving(tmp_path / "a") as served:
        id = served.client.register(ALL).json["id"]
        served.client.post(triple(1, "o"), at=1)
        monkeypatch.setattr("thalweg.server.log.os.fsync", failing)
        served.service.look(lambda state: served.service._snapshot()).result()
        monkeypatch.undo()
        # It would go to a log that the next start does not read.
        assert served.client.post(triple(2, "o"), at=2).status == 503
        copy = crashed(served, tmp_path / "b")
    with serving(copy) as again:
        assert len(again.client.results(id)) == 1


def test_an_error_in_a_snapshot_does_not_end_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Session, **_: Any) -> bytes:
        raise ZeroDivisionError("an error of the engine")

    monkeypatch.setattr(Session, "save", broken)
    with serving(tmp_path / "a", snapshot_bytes=100) as served:
        id = served.client.register(ALL).json["id"]
        for n in range(3):
            assert served.client.post(triple(n, "o"), at=n).status == 200
        rows = served.client.results(id)
        copy = crashed(served, tmp_path / "b")
    monkeypatch.undo()
    with serving(copy) as again:
        assert again.client.results(id) == rows
