"""The state of a service whose queries run on Spark: what it takes goes to a journal, rows come back by batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from thalweg.algebra.query import Query
from thalweg.answers import Stats, Stream
from thalweg.arguments import time_of
from thalweg.engine import Session
from thalweg.instants import Time, as_instant
from thalweg.kernels.store import INSERT
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import NO_TIME, Chunk
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.prune import Prune
from thalweg.rdf.timestamped import merged
from thalweg.rows import Row
from thalweg.server.bodies import Read
from thalweg.server.canonical import Canonical
from thalweg.server.errors import UnsupportedError
from thalweg.server.registry import Plan, Registered
from thalweg.server.state import Counts, Settings, State
from thalweg.spark.journal import DamagedJournalError, Journal
from thalweg.spark.routing import EVENTS
from thalweg.spark.set_engine import ADVANCE, ERROR, ORDER, member_query
from thalweg.static.data import StaticData

_ARENA_BYTES = 16 << 20
"""Bytes of terms of bodies that were read, after which they are let go."""


def chunk_of(batch: EventBatch) -> Chunk:
    """The events of a batch as a chunk, from which `EventFramer` makes the same events."""
    times = batch.times
    kept = times != NO_TIME  # the others were refused
    bare = kept.copy()
    bare[batch.places] = False
    empty = np.flatnonzero(bare)  # events of which no triple was kept: a row without one stands for each
    inserts = np.ones(len(times), np.bool_) if batch.inserts is None else batch.inserts
    place = np.concatenate([batch.places, empty])
    order = np.argsort(place, kind="stable")
    place = place[order]
    ids = [np.concatenate([column, np.zeros(len(empty), np.int64)])[order] for column in batch.rows.ids]
    op = np.concatenate([batch.rows.op, np.where(inserts[empty], INSERT, 0)])[order]
    number = (np.cumsum(kept) - 1)[place]
    g, s, p, o = ids
    return Chunk(len(batch), 0, number, g, s, p, o, times[place], op=op)


class _Elsewhere:
    """What the service does not have of a query: its windows and its answer are those of Spark's shards."""

    held = nbytes = window_bytes = None


@dataclass(eq=False)
class JobQuery:
    """A query of the job, by its name there."""

    name: str
    query: Query
    view = streamset = _Elsewhere()

    @property
    def order(self) -> dict[str, Any]:
        """The order that registers it: its text, the stream of those that name none, and its closed schema."""
        closed = None if self.query.schema is None else self.query.schema.as_text()
        return {"text": self.query.text, "stream": self.query.streams[0], "closed": closed}

    def answer(self) -> NoReturn:
        """Refuses: the answer is in the shards."""
        raise UnsupportedError("on Spark, a query has no present answer: follow its results")


class JournalSession(Session):
    """A session that writes to a journal what others evaluate; it follows the watermarks of streams.

    What an operation of the service makes is one record, whose number is that of the operations so far: so a log that
    is read again makes the same numbers, also if it has one by one what came together.
    """

    def __init__(
        self, journal: Journal, *, lateness: int | str = 0, static: StaticData | None = None
    ) -> None:
        super().__init__(lateness=lateness, max_pending=None, static=static)
        # Apart from that of the session, which lets go of terms that none of its own queries uses.
        self.arena = Arena()
        self._everything = Prune.everything()
        self._journal = journal
        self._number = 0
        self._names = 0
        self._jobs: list[JobQuery] = []
        self._record: tuple[str, str, bytes] | None = None
        self._chunks: list[Chunk] = []

    def commit(self, steps: int) -> None:
        """Writes the record of an operation, unless the journal has it; the operation counts as so many steps."""
        record, chunks = self._record, self._chunks
        self._record, self._chunks = None, []
        self._number += steps
        if self._number <= self._journal.last or record is None:
            return
        kind, stream, content = record
        self._journal.append(
            self._number, kind, stream, merged(chunks).pack(self.arena) if chunks else content
        )

    def forget(self) -> None:
        """Forgets what an operation was about to write that has failed."""
        self._record, self._chunks = None, []

    def register(self, text: Any, *, start: str = "now", **_: Any) -> JobQuery:  # type: ignore[override]
        """Orders a query to be registered."""
        self._names += 1
        query = JobQuery(f"q{self._names}", text)
        order = {"op": "register", "query": query.name, **query.order}
        self._record = ORDER, "", json.dumps(order, ensure_ascii=False).encode()
        self._jobs.append(query)
        return query

    def unregister(self, query: JobQuery) -> None:  # type: ignore[override]
        """Orders a query to be dropped."""
        self._jobs.remove(query)
        self._record = ORDER, "", json.dumps({"op": "drop", "query": query.name}).encode()

    def push_events(self, batch: EventBatch) -> None:
        """Takes events for the journal, and counts those that are late."""
        self._record = EVENTS, batch.stream, b""
        self._chunks.append(chunk_of(batch))
        unread = self.stats.unread
        super().push_events(replace(batch, rows=Rows.empty(), event_time=batch.times))
        self.stats.triples += len(batch)
        if any(batch.stream in one.query.streams for one in self._jobs):
            self.stats.unread = unread

    def advance(self, at: Time, stream: str | None = None) -> None:
        """Takes a watermark for the journal."""
        assert stream is not None, "a service names the stream"
        super().advance(at, stream)
        self._record = ADVANCE, stream, b"%d" % time_of(at)

    def let_go(self) -> None:
        """Lets go of the terms of bodies, all of which are in the journal."""
        if self.arena.used_bytes > _ARENA_BYTES:
            self.arena.clear()

    def prune(self) -> Prune:
        """Nothing is left out: queries may come that need it, before Spark reads it."""
        return self._everything

    @property
    def queries(self) -> list[JobQuery]:  # type: ignore[override]
        """The registered queries."""
        return list(self._jobs)

    @property
    def retained_streams(self) -> list[str]:
        """Refuses: who asks wants their content."""
        raise UnsupportedError("on Spark, the service has no content to ask: streams retain nothing there")

    def retain(self, stream: str, keep: int | str | None = None) -> None:
        """Refuses."""
        raise UnsupportedError("on Spark, streams retain nothing: leave `retention` out")

    def load(self, *_: Any, **__: Any) -> int:
        """Refuses."""
        raise UnsupportedError("on Spark, static data are given at the start: thalweg serve --static")

    def save(self, *, with_static: bool = True) -> bytes:
        """What the journal does not have, after the disk has the journal."""
        self._journal.sync()
        about = {
            "number": self._number,
            "written": self._journal.last,
            "names": self._names,
            "queries": [{"name": one.name, **one.order} for one in self._jobs],
            "streams": [asdict(one) for one in self._streams.values()],
            "stats": asdict(self.stats),
        }
        return json.dumps(about).encode()

    def restore_from(self, saved: bytes, read: Callable[[dict[str, Any]], Query]) -> None:
        """Goes on from what was saved; `read` makes the queries of orders."""
        about = json.loads(saved)
        self._number, self._names = about["number"], about["names"]
        if self._journal.last < about["written"]:
            raise DamagedJournalError(
                f"the journal ends with record {self._journal.last:,}, and the snapshot was made after "
                f"{about['written']:,}: restore the data folder from a copy",
                source=str(self._journal.folder),
            )
        self._jobs = [JobQuery(one["name"], read({"query": one["name"], **one})) for one in about["queries"]]
        self._streams = {one["name"]: Stream(**one) for one in about["streams"]}
        self.stats.restore(Stats(**about["stats"]))


@dataclass
class Progress:
    """How far the job is: the number of the last record whose rows are here, and why it has ended, if so."""

    reached: int = 0
    failure: str | None = None


class JobState(State):
    """Streams, queries and their rows; the rows come with the batches of the job."""

    session: JournalSession

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], int],
        saved: bytes | None = None,
        *,
        journal: Journal,
        static: StaticData | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._journal, self._static = journal, static or StaticData()
        self.progress = progress or Progress()
        self._changed: dict[Plan, None] = {}
        super().__init__(settings, clock, saved)
        self.counters.setdefault("batch", -1)  # the last one whose rows are here

    def _new_session(self) -> JournalSession:
        return JournalSession(self._journal, lateness=self.settings.lateness, static=self._static)

    def _saved_session(self, saved: bytes) -> JournalSession:
        session = self._new_session()
        session.restore_from(saved, lambda order: member_query(order, self._static.names))
        return session

    def understood(self, operation: dict[str, Any]) -> Canonical:
        """The query of a registration; what Spark cannot do is refused."""
        if operation.get("start") == "content":
            raise UnsupportedError(
                'on Spark, a query begins with what comes: leave `start` out, or give "now"'
            )
        asked = super().understood(operation)
        if asked.query.output is not None:
            raise UnsupportedError(
                "on Spark, the service derives no streams: register the query without REGISTER STREAM"
            )
        return asked

    @property
    def waiting(self) -> int:
        """How many operations the job has not seen."""
        return max(0, self._journal.last - self.progress.reached)

    def query_page(self, registered: Registered, *, whole: bool = False) -> dict[str, Any]:
        """A query as clients see it, and how many operations wait for the job."""
        page = super().query_page(registered, whole=whole)
        return page | {"waiting": self.waiting, "failed": page["failed"] or self.progress.failure}

    def apply(self, operation: dict[str, Any], body: bytes) -> dict[str, Any] | Counts:
        """Carries out an operation, and writes its record to the journal."""
        try:
            found = super().apply(operation, body)
        except BaseException:
            self.session.forget()
            raise
        if not isinstance(found, Counts):
            self.session.commit(1)
        return found

    def take(self, operation: dict[str, Any], read: Read) -> Counts:
        """Takes events, as one record of the journal."""
        try:
            found = super().take(operation, read)
        except BaseException:
            self.session.forget()
            raise
        self.session.commit(len(read))
        return found

    def results(self) -> dict[Plan, list[Row]]:
        """The plans that have changed; their rows are in the rings and in the log already."""
        self.session.let_go()
        changed, self._changed = self._changed, {}
        return {plan: [] for plan in changed}

    def _do_batch(self, operation: dict[str, Any], body: bytes) -> dict[str, Any]:
        """Takes the rows of a batch of the job, once: a batch that is run again has its number."""
        if operation["batch"] <= self.counters["batch"]:
            return {}
        self.counters["batch"] = operation["batch"]
        plans: dict[str, Plan] = {one.query.name: one for one in self.plans.values()}  # type: ignore[attr-defined]
        found = json.loads(body)
        for name, rows in found["rows"].items():
            plan = plans.get(name)
            if plan is not None:  # else it has been dropped since
                super().publish({plan: [Row(as_instant(at), *rest) for at, *rest in rows]})
                self._changed[plan] = None
        for name, op, message in found["notices"]:
            if op == ERROR and name in plans:
                plans[name].failed = message
                self._changed[plans[name]] = None
        return {}


def rows_by_query(table: pa.Table) -> bytes:
    """The rows of a batch by the names of their queries, and what became of orders, as the body of an operation.

    Empty where there is nothing.
    """
    rows: dict[str, list[Any]] = {}
    notices = []
    at = table.column("at").cast(pa.int64()).to_pylist()
    columns = (table.column(name).to_pylist() for name in ("query", "op", "event", "bindings"))
    for when, name, op, graph, bindings in zip(at, *columns, strict=True):
        if when is None:
            notices.append([name, op, dict(bindings).get("message", "")])
        else:
            rows.setdefault(name, []).append([when, op, dict(bindings), graph])
    return json.dumps({"rows": rows, "notices": notices}, ensure_ascii=False).encode() if at else b""
