"""The journal of a service on Spark: records that Spark reads again, and the rows that come back of them."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from tests.server.serving import triple
from tests.spark.fakes import _FILES, new_worker
from tests.spark.test_query_sets import SUBPROPERTY, PlaySet, _netted
from thalweg.arguments import static_data_of
from thalweg.errors import QueryError
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk
from thalweg.rdf.formats import FORMATS
from thalweg.rdf.prune import Prune
from thalweg.rdf.timestamped import EventFramer
from thalweg.server.bodies import Framing, read_body
from thalweg.server.errors import FailedError
from thalweg.server.log import SPARK, Folder
from thalweg.server.service import Service as WebService
from thalweg.server.state import Settings, State
from thalweg.spark import journal as journals
from thalweg.spark import shard_engine
from thalweg.spark.journal import (
    FIRST,
    DamagedJournalError,
    Journal,
    JournalReader,
    Place,
    files_of,
    path_of,
    reached,
    records,
)
from thalweg.spark.results import ARROW, unpack_named_results
from thalweg.spark.service_state import JobState, chunk_of, rows_by_query
from thalweg.spark.set_plan import SetPlan
from thalweg.static.data import StaticData
from thalweg.static.shipping import StaticFiles
from thalweg.testing.algebra import (
    FEATURES,
    FORMS,
    algebra_questions,
    algebra_streams,
    algebra_triples,
    with_static,
)
from thalweg.testing.snapshot import Event
from thalweg.testing.strategies import any_windows

S = "http://ex/s"
ALL = "SELECT ?a ?b FROM STREAM <http://ex/s> [RANGE 10s] WHERE { ?a <http://ex/p> ?b }"


class PlayJournal(PlaySet):
    """A set of queries over a journal; the rows of each batch are a table."""

    def __init__(self, plan: SetPlan) -> None:
        super().__init__(plan)
        self.tables: list[pa.RecordBatch] = []

    def _taken(self, stage: int, made: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
        blobs = [frame["results"].item() for frame in made]
        packed = pa.table({"results": pa.array([blob for blob in blobs if blob is not None], pa.binary())})
        self.tables = list(unpack_named_results(iter(packed.to_batches())))
        return []

    def rows(self, folder: Path, start: Place, end: Place, *, retry: bool) -> bytes:
        """The body of the operation with the rows of a batch."""
        parts = JournalReader(folder).partitions(start.to_json(), end.to_json())
        taken = [record for one in parts for record in records(one.path, one.start, one.end)]  # type: ignore[attr-defined]
        self.batch([journals._rows([record], self.job.keys) for record in taken], retry=retry)
        schema = pa.schema([("query", pa.string()), *ARROW])
        return rows_by_query(pa.Table.from_batches(self.tables, schema))


class Service:
    """The operations of a service without its sockets, in this process and by a journal."""

    def __init__(self, folder: Path, static: StaticData, shards: int) -> None:
        self.folder, self.static = folder, static
        self.here = State(Settings(), lambda: 0)
        self.here.session = self.here.session.__class__(max_pending=None, static=static)
        self.there = JobState(Settings(), lambda: 0, journal=Journal(folder), static=static)
        files = StaticFiles.of(static, Path(_FILES.name)) if static else StaticFiles()
        self.play = PlayJournal(SetPlan(RunOptions(shards=shards), static=files))
        self.place, self.batches = FIRST, 0
        self.compared: dict[str, tuple[Any, Any]] = {}

    def apply(self, operation: dict[str, Any], body: bytes = b"") -> None:
        answers = [one.apply(dict(operation), body) for one in (self.here, self.there)]
        if operation["kind"] == "events":
            assert answers[0].answer() == answers[1].answer()  # type: ignore[union-attr]
        self.here.publish(self.here.results())
        self.there.results()

    def register(self, id: str, text: str, **more: Any) -> None:
        common = {"kind": "register", "id": id, "now": 0, "lease_ms": 1, "start": "now", "text": text, **more}
        self.here.understood(common)
        self.apply(common)
        self.compared[id] = tuple(one.queries[id].plan for one in (self.here, self.there))

    def deliver(self, *, limit: int = 1 << 30, retry: bool = False) -> None:
        end = reached(self.folder, self.place, limit)
        body = self.play.rows(self.folder, self.place, end, retry=retry)
        self.place = end
        for _ in range(1 + retry if body else 0):  # a batch that is run again is delivered again
            self.there.apply({"kind": "batch", "batch": self.batches}, body)
        self.batches += 1

    def restart(self) -> None:
        saved = self.there.save()
        journal = Journal(self.folder)
        self.there = JobState(Settings(), lambda: 0, saved, journal=journal, static=self.static)
        for id, (here, _) in self.compared.items():
            if id in self.there.queries:
                self.compared[id] = here, self.there.queries[id].plan

    def check(self, id: str) -> None:
        here, there = (
            _netted((at, op, bindings) for at, op, bindings, _ in plan.ring.state()["rows"])
            for plan in self.compared[id]
        )
        assert there == here, id
        assert self.compared[id][1].failed is None


def body_of(event: Event) -> tuple[str, bytes]:
    if event.op == "delete":
        return "ru", f"DELETE DATA {{ {event.text} }}".encode()
    return "nt", event.text.encode()


@pytest.mark.parametrize("saved", [False, True])
@given(data=st.data())
def test_rows_that_come_back_are_those_of_the_service_in_one_process(
    saved: bool, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if saved:  # sessions in the place of logs
            for name, value in ("_FULL", 0), ("_SPARSE", 0), ("_PART", 700):
                patch.setattr(shard_engine, name, value)
        patch.setattr(journals, "_ROLL", 2000)
        _run(data, tmp_path_factory.mktemp("journal"))


def _run(data: st.DataObject, folder: Path) -> None:
    events = data.draw(algebra_streams(dense=True, max_events=10))
    some = st.frozensets(algebra_triples(dense=True), max_size=6)
    static = data.draw(some)
    text = "".join(f"{s} {p} {o} .\n" for s, p, o in sorted(static))
    loaded = static_data_of(text + "\n") if data.draw(st.booleans()) else StaticData()
    service = Service(folder, loaded, data.draw(st.sampled_from([1, 2])))
    for stream in sorted({event.stream for event in events}):
        service.apply({"kind": "stream", "name": stream, "retention": None, "framing": {}})
    heard = [*events, Event(events[0].stream, 0, tuple(sorted(static)))]
    running: list[str] = []
    count = 0
    for k, event in enumerate(events):
        if not k or (count < 4 and data.draw(st.integers(0, 3)) == 3):
            count += 1
            question = data.draw(
                algebra_questions(heard, features=FEATURES, forms=FORMS, window=any_windows(), size=2)
            )
            if loaded:
                question = data.draw(with_static(question))
            if any(source.name and not source.streams for source in question.sources):
                reject()  # a graph that is not loaded
            try:
                service.register(f"q{count}", question.text())
            except QueryError:
                reject()
            running.append(f"q{count}")
        what = data.draw(st.sampled_from([None, None, "advance", "restart", "drop"]))
        if what == "advance":
            service.apply({"kind": "advance", "stream": event.stream, "at": event.time})
        elif what == "restart":
            service.restart()
        elif what == "drop" and running:
            id = running.pop(data.draw(st.integers(0, len(running) - 1)))
            if data.draw(st.booleans()):
                service.deliver()
                service.check(id)
            service.apply({"kind": "drop", "id": id, "reason": "dropped"})
        format, body = body_of(event)
        service.apply({"kind": "events", "stream": event.stream, "format": format, "at": event.time}, body)
        if data.draw(st.booleans()):
            if data.draw(st.booleans()):
                new_worker()
            limit = data.draw(st.sampled_from([1, 500, 1 << 30]))
            service.deliver(limit=limit, retry=data.draw(st.booleans()))
    service.deliver()
    for id in running:
        service.check(id)


def test_a_query_under_a_schema_and_one_with_other_names_come_back_under_their_own(tmp_path: Path) -> None:
    service = Service(tmp_path, static_data_of("<http://ex/x> <http://ex/p> <http://ex/y> .\n"), 2)
    service.register("plain", ALL)
    service.register("closed", ALL, schema=SUBPROPERTY, rules=None)
    service.register("without", ALL.replace(" FROM STREAM <http://ex/s> [RANGE 10s]", ""), stream=S)
    graph = "SELECT * FROM <http://ex/g> FROM STREAM <http://ex/s> WHERE { ?a ?p ?b }"
    with pytest.raises(Exception, match="not loaded"):
        service.register("graph", graph)
    body = b"<http://ex/a> <http://ex/q> _:b .\n<http://ex/a> <http://ex/p> <http://ex/c> .\n"
    service.apply({"kind": "events", "stream": S, "format": "nt", "at": 1}, body)
    service.restart()
    service.deliver()
    service.apply({"kind": "advance", "stream": S, "at": 20_000_000})
    service.deliver()
    assert [len(service.there.queries[id].plan.ring.state()["rows"]) for id in service.compared] == [3, 5, 2]
    for id in service.compared:
        service.check(id)


PATCH = """TX .
A <http://ex/a> <http://ex/p> <http://ex/b> .
A <http://ex/a> <http://ex/p> _:x .
TC .
TX .
TC .
TX .
D <http://ex/a> <http://ex/p> <http://ex/b> .
TC .
"""


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("rdfp", PATCH),
        ("nt", "<http://ex/a> <http://ex/p> _:b .\nwrong\n<http://ex/c> <http://ex/p> _:b .\n"),
    ],
)
def test_packed_events_are_the_events_of_the_body(format: str, text: str) -> None:
    arena, other = Arena(), Arena()
    body = read_body(
        text.encode(),
        FORMATS[format],
        S,
        Framing(),
        at=5,
        number=0,
        first_event=0,
        arena=arena,
        prune=Prune.everything(),
    )
    framer = EventFramer(S, other)
    assert body.events.any()
    for batch in body.batches:
        again = framer.frame(Chunk.unpack(chunk_of(batch).pack(arena), other))
        kept = batch.times != shard_engine.NO_TIME
        assert again.times.tolist() == batch.times[kept].tolist()
        assert again.rows.op.tolist() == batch.rows.op.tolist()
        assert again.rows.time.tolist() == batch.rows.time.tolist()
        for mine, given_ in zip(again.rows.ids, batch.rows.ids, strict=True):
            assert _texts(other, mine) == _texts(arena, given_)
        assert np.diff(again.rows.event).tolist() == np.diff((np.cumsum(kept) - 1)[batch.places]).tolist()
        if batch.inserts is not None:
            assert again.inserts is not None
            assert again.inserts.tolist() == batch.inserts[kept].tolist()


def _texts(arena: Arena, ids: np.ndarray) -> list[str]:
    return [arena.text(id) if id else "" for id in ids.tolist()]


def written(folder: Path, count: int, **given: Any) -> Journal:
    journal = Journal(folder, **given)
    for number in range(journal.last + 1, count + 1):
        journal.append(number, "events", S, b"x" * number)
    return journal


def contents(folder: Path, start: Place = FIRST, limit: int = 1 << 30) -> Iterator[int]:
    end = reached(folder, start, limit)
    for one in JournalReader(folder).partitions(start.to_json(), end.to_json()):
        for record in records(one.path, one.start, one.end):  # type: ignore[attr-defined]
            assert (record.stream, record.content) == (S, b"x" * record.number)
            yield record.number


@pytest.mark.parametrize("roll", [1, 200, 1 << 20])
def test_a_journal_is_read_from_any_place_to_any_other(tmp_path: Path, roll: int) -> None:
    written(tmp_path, 20, roll=roll)
    assert list(contents(tmp_path)) == list(range(1, 21))
    place, found = FIRST, []
    while (end := reached(tmp_path, place, 1)) != place:
        found += contents(tmp_path, place, 1)
        place = end
    assert (found, place.number) == (list(range(1, 21)), 20)


def test_a_record_that_breaks_off_goes_and_is_written_again(tmp_path: Path) -> None:
    written(tmp_path, 5).close()
    path = path_of(tmp_path, 1)
    os.truncate(path, path.stat().st_size - 2)
    assert list(contents(tmp_path)) == [1, 2, 3, 4]
    journal = written(tmp_path, 6)
    assert journal.last == 6
    assert list(contents(tmp_path)) == [1, 2, 3, 4, 5, 6]


def test_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    written(tmp_path, 3)
    data = bytearray(path_of(tmp_path, 1).read_bytes())
    data[-1] ^= 1
    path_of(tmp_path, 1).write_bytes(data)
    with pytest.raises(DamagedJournalError, match="damaged at byte"):
        list(contents(tmp_path))


def test_files_that_are_done_go_and_the_last_one_stays(tmp_path: Path) -> None:
    journal = written(tmp_path, 5, roll=1)
    journal.forget(4)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{k:09d}.journal" for k in (4, 5)]
    journal.forget(9)
    assert len(list(tmp_path.iterdir())) == 1
    journal.close()
    assert Journal(tmp_path).last == 5


def served(path: Path, folder: Path) -> WebService:
    """A service whose queries nobody runs: what it takes is in its log and in the journal."""

    def state(settings: Settings, clock: Any, saved: bytes | None) -> JobState:
        return JobState(settings, clock, saved, journal=Journal(folder, roll=400))

    return WebService(path, state=state, folder=partial(Folder, engine=SPARK), snapshot_bytes=900)


def told(folder: Path) -> list[Any]:
    """What a journal says, however its events are divided over records."""
    end = reached(folder, FIRST)
    found: list[Any] = []
    for one in JournalReader(folder).partitions(FIRST.to_json(), end.to_json()):
        for record in records(one.path, one.start, one.end):  # type: ignore[attr-defined]
            if record.kind != "events":
                found.append((record.kind, record.stream, record.content))
                continue
            arena = Arena()
            chunk = Chunk.unpack(record.content, arena)
            terms = zip(*(_texts(arena, column) for column in (chunk.s, chunk.p, chunk.o)), strict=True)
            found += zip([record.stream] * len(chunk), chunk.time.tolist(), terms, strict=True)
    return found


@given(data=st.data())
def test_a_crash_at_any_record_leaves_a_journal_that_the_log_completes(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("service")
    service = served(path / "data", path / "journal")
    service.register({"text": ALL}, 10**9).result()
    for k in range(data.draw(st.integers(1, 3))):
        waits = threading.Event()
        service.look(lambda state, waits=waits: waits.wait())  # what comes meanwhile is one group
        pending = []
        for j in range(data.draw(st.integers(1, 4))):
            operation = {"stream": S, "format": "nt", "per_event": None, "at": 1000 * k}
            text = triple(k, j) * data.draw(st.integers(0, 2)) + ("broken\n" if j == 3 else "")
            pending.append(service.events(operation, text.encode()))
        waits.set()
        for one in pending:
            one.result()
        if data.draw(st.booleans()):
            service.submit({"kind": "advance", "stream": S, "at": 1000 * k}).result()
        if data.draw(st.booleans()):
            service.register({"text": ALL.replace("?a", f"?a{k}")}, 10**9).result()
    shutil.copytree(path / "data", path / "crashed", ignore=shutil.ignore_patterns("lock"))
    shutil.copytree(path / "journal", path / "again")
    service.close()
    before = told(path / "journal")
    # Records since the last snapshot may be lost, with the disk's power: the log has them.
    last = path_of(path / "again", files_of(path / "again")[-1])
    floor = max([0, *(json.loads(one)["written"] for one in _snapshots(path / "crashed"))])
    ends = _ends(last)
    cuts = [end for number, end in ends if number >= floor] + [
        end - 1 for number, end in ends if number > floor
    ]
    os.truncate(last, data.draw(st.sampled_from([*cuts, *([0] if ends and ends[0][0] > floor else [])])))
    served(path / "crashed", path / "again").close()
    assert told(path / "again") == before


def _ends(path: Path) -> list[tuple[int, int]]:
    with path.open("rb") as file:
        return list(journals._scanned(file.fileno()))


def _snapshots(path: Path) -> list[bytes]:
    found = []
    for one in path.glob("snapshot-*"):
        data = one.read_bytes()[12:]
        found.append(data[8 + int.from_bytes(data[:8], "little") :])
    return found


def test_an_operation_that_fails_leaves_no_record_and_those_after_it_have_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = served(tmp_path / "data", tmp_path / "journal")
    service.register({"text": ALL}, 10**9).result()
    operation = {"stream": S, "format": "nt", "per_event": None, "at": 1}
    service.events(dict(operation), triple("a", "b").encode()).result()
    with monkeypatch.context() as patch:
        patch.setattr("thalweg.spark.service_state.merged", lambda chunks: 1 / 0)
        with pytest.raises(FailedError, match="cannot carry this out"):
            service.events(dict(operation), triple("b", "c").encode()).result()
    service.events(dict(operation), triple("c", "d").encode()).result()
    service.close()
    assert [one[2][0] for one in told(tmp_path / "journal")[1:]] == ["<http://ex/a>", "<http://ex/c>"]
    served(tmp_path / "data", tmp_path / "journal").close()
    assert len(told(tmp_path / "journal")) == 3
