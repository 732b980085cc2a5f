"""The engine of a shard of a set of queries, which come and go while it runs.

An order (to register or to drop a query) is a row of the batch like others, so that a batch that is run again has the
same queries. Orders of a frame of their own are carried out before the events of their batch. Those of a journal have
their places among the events. The state of the shard has the queries, and where in the log of chunks each was
registered: a new engine registers it there again.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from thalweg.algebra.query import Query
from thalweg.answers import ContinuousQuery
from thalweg.arguments import query_of, under_schema
from thalweg.engine import Session
from thalweg.errors import ThalwegError, UsageError
from thalweg.operators.derived import output_of
from thalweg.plan.coverage import Coverage, agrees
from thalweg.rdf.chunk import NO_TIME, Chunk
from thalweg.rdf.events import EventBatch
from thalweg.rdf.timestamped import join_blobs
from thalweg.schema.axioms import Schema
from thalweg.spark.results import ARROW, pack_results, packed_rows
from thalweg.spark.routing import share_of
from thalweg.spark.set_plan import SetPlan
from thalweg.spark.shard_engine import SAVED, Arrival, LogEntry, Positions, ShardEngine

ORDER = "order"
"""The syntax of chunks that are orders."""
ADVANCE = "advance"
"""The syntax of chunks that are the watermark of a stream, in microseconds."""
AFTER_EVENTS = 1 << 62
"""The least sequence number of an order: orders are sorted behind the chunks of their batch."""
REGISTERED, DROPPED, ERROR = "registered", "dropped", "error"
"""What became of orders and queries: the `op` of rows without an instant."""


@dataclass
class _Member:
    """A query of the set, its order, and the place in the log of the first entry that it has seen."""

    order: dict[str, Any]
    place: int
    query: ContinuousQuery
    watermarks: dict[str, int]
    """Those that had been set when the query came: they are no part of what it has seen."""
    static: int | None = None
    """From which instant on a new engine has to have static data for it."""


def member_query(order: Mapping[str, Any], graphs: Collection[str] = ()) -> Query:
    """The query of an order, under its schema: RDF text, never the name of a file, which would be one of the worker.

    `graphs` are the static graphs that there are. An order of a service has a closed schema (`closed`).
    """
    query = query_of(
        order.get("text") or "", source=order["query"], stream=order.get("stream"), graphs=graphs
    )
    absent = [name for name in query.graphs if name and name not in graphs]
    if absent:
        raise UsageError(
            f"the set has no static graph <{absent[0]}>: static data are given when a set is started"
        )
    if order.get("closed") is not None:
        return query.under(Schema.from_text(order["closed"]))
    schema = order.get("schema")
    return under_schema(query, None if schema is None else schema.encode(), order.get("rules"))


class SetEngine(ShardEngine):
    """An engine of one shard with the queries whose names belong to it."""

    plan: SetPlan  # type: ignore[assignment]

    def __init__(self, plan: SetPlan, shard: int = 0) -> None:
        self.members: dict[str, _Member] = {}
        self._notices: list[bytes] = []
        self._earlier: deque[dict[str, Any]] = (
            deque()
        )  # queries of an earlier engine, in the order of their places
        super().__init__(plan, shard)  # type: ignore[arg-type]

    def _begin(self, session: Session) -> None:
        self.session = session
        self._coverage = Coverage([], [])
        session.keep(lambda: [framer.live_ids() for framer in self.framers.values()])

    def batch(self, arrivals: Sequence[Arrival], now: int, place: int) -> Iterator[tuple[int, bytes]]:
        """Apply the orders that have no place among the chunks, then the chunks."""
        events = [arrival for arrival in arrivals if arrival.seq < AFTER_EVENTS]
        for arrival in arrivals[len(events) :]:
            self._obey(json.loads(arrival.chunk), place)
        yield from super().batch(events, now, place)

    def _take(self, arrivals: Sequence[Arrival]) -> LogEntry | None:
        (first, *_) = arrivals
        if first.syntax == ORDER:
            self._obey(json.loads(first.chunk), self._place)
            return None
        if first.syntax == ADVANCE:
            watermark = int(first.chunk)
            if watermark > self.positions.watermarks.get(first.stream, NO_TIME):
                self.positions.watermarks[first.stream] = watermark
                self._advance(first.stream, watermark)
            return None
        return super()._take(arrivals)

    def _obey(self, order: dict[str, Any], place: int) -> None:
        name, op = str(order.get("query") or ""), order.get("op")
        if self.plan.shard_of(name) != self.shard:
            return
        try:
            if not name:
                raise ThalwegError("an order names no query")
            if op == "register":
                if name in self.members:
                    raise ThalwegError("a query of this name is registered: drop it first")
                self._register(order, place)
                self._notice(name, REGISTERED)
            elif op == "drop":
                if name not in self.members:
                    raise ThalwegError("there is no query of this name")
                self._drop(name)
                self._notice(name, DROPPED)
            else:
                raise ThalwegError(f"an order is to register or to drop, not {op!r:.60}")
        except ThalwegError as failure:
            self._notice(name, ERROR, str(failure))

    def _register(self, order: dict[str, Any], place: int) -> _Member:
        query = member_query(order, self.plan.static_names)
        if self.plan.shards > 1 and output_of(query) is not None:
            raise UsageError("a derived stream would be that of one shard only: run the set in one shard")
        registered = self.session.register(query)
        member = _Member(order, place, registered, dict(self.positions.watermarks))
        self.members[order["query"]] = member
        return member

    def _drop(self, name: str) -> None:
        """Let a query go; what it has found in the events before is among the results."""
        member = self.members.pop(name)
        try:
            self._notices += self._drained(name, member)
        except ThalwegError as failure:
            self._notice(name, ERROR, str(failure))
        self.session.unregister(member.query)

    def _notice(self, name: str, op: str, message: str = "") -> None:
        bindings = {"message": message} if message else {}
        row = {"at": None, "op": op, "window": None, "event": None, "bindings": bindings}
        self._notices.append(packed_rows(pa.RecordBatch.from_pylist([row], schema=ARROW), name or "?"))

    def _results(self) -> Iterator[tuple[int, bytes]]:
        self._undrained = 0
        for name, member in list(self.members.items()):
            try:
                found = self._drained(name, member)
            except ThalwegError as failure:  # it has outgrown a limit: the others go on
                self.session.unregister(self.members.pop(name).query)
                self._notice(name, ERROR, str(failure))
                continue
            yield from ((0, packed) for packed in found)
        notices, self._notices = self._notices, []
        yield from ((0, notice) for notice in notices)

    def _drained(self, name: str, member: _Member) -> list[bytes]:
        delta = member.query.drain()
        self.result.answers += len(delta)
        return list(pack_results(member.query, self.session.arena, delta, name))

    def _unpack(self, mode: str, arrivals: Sequence[Arrival]) -> tuple[list[Chunk], bytes]:
        """The chunks of arrivals, less the triples that no query uses: the log need not have these."""
        chunks, _ = super()._unpack(mode, arrivals)
        arena = self.session.arena
        wanted = [agrees(self.session.prune(), chunk, arena) for chunk in chunks]
        if all(mask.all() for mask in wanted):
            return chunks, b""
        chunks = [share_of(chunk, mode, mask) for chunk, mask in zip(chunks, wanted, strict=True)]
        return chunks, join_blobs([chunk.pack(arena) for chunk in chunks])

    def _reads(self, stream: str) -> bool:
        return any(stream in member.query.query.streams for member in self.members.values())

    def _push(self, batch: EventBatch) -> None:
        if self._reads(batch.stream):
            super()._push(batch)
            return
        # Nobody reads it; a query that comes later finds the stream as far as it has come.
        super()._push(EventBatch.empty(batch.stream, batch.clock))
        if self.shard == 0:
            self.result.events += batch.events
            self.result.rejects += batch.rejects

    def _size(self, batch: EventBatch) -> int:
        return super()._size(batch) if self._reads(batch.stream) else 0

    def _reports_shared_events(self, stream: str) -> bool:
        return self.shard == 0

    def _expired(self) -> Iterator[int]:
        if self.members:
            yield from super()._expired()
            return
        while self._index:
            yield self._index.popleft().place
        self._rows = 0

    @property
    def _spreads_events(self) -> bool:
        return False

    def _note_queries(self) -> None:
        if self.session.static_graphs:
            for member in self.members.values():
                member.static = member.query.streamset.static_since(member.static)
        self.positions.queries = [
            {
                "order": member.order,
                "place": member.place,
                "opened": member.query.view.first_instant,
                "watermarks": member.watermarks,
                "static": member.static,
            }
            for member in self.members.values()
        ]

    # A new engine

    def open(self, positions: Positions) -> None:
        """Take the queries of an earlier engine, to be registered where they were."""
        self._earlier = deque(sorted(positions.queries, key=lambda saved: saved["place"]))

    def replay(self, place: int, entry: LogEntry) -> None:
        """Apply an entry of the log again."""
        if entry.mode != SAVED:
            self._register_up_to(place)
        super().replay(place, entry)

    def resume(self, positions: Positions) -> None:
        """Go on from the positions of an earlier engine."""
        self._register_up_to(None)
        super().resume(positions)
        self._coverage = Coverage([], [])

    def _register_up_to(self, place: int | None) -> None:
        while self._earlier and (place is None or self._earlier[0]["place"] <= place):
            saved = self._earlier.popleft()
            # A watermark that was set before the query came would begin its answer, were it set after it.
            for stream, watermark in saved["watermarks"].items():
                self._advance(stream, watermark)
            member = self._register(saved["order"], saved["place"])
            member.watermarks, member.static = saved["watermarks"], saved["static"]
            if saved["opened"] is not None:
                member.query.view.open(saved["opened"])
            if saved["static"] is not None:
                member.query.streamset.open_static(saved["static"])

    def _saved_queries(self) -> bytes:
        return json.dumps([[name, member.place] for name, member in self.members.items()]).encode()

    def _restored(self, saved: bytes, entry: LogEntry) -> Session:
        """A saved session, less the queries that were dropped after it was saved."""
        session = Session.restore(saved, static=self.plan.static_data(self.shard))
        known = {(one["order"]["query"], one["place"]): one for one in self._earlier}
        self.members = {}
        for (name, place), query in zip(json.loads(entry.before), session.queries, strict=True):
            one = known.get((name, place))
            if one is None:
                session.unregister(query)
                continue
            self._earlier.remove(one)
            self.members[name] = _Member(one["order"], place, query, one["watermarks"], one["static"])
        return session

    def _forget(self) -> None:
        for member in self.members.values():
            member.query.drain()
        self.session.late()
        self.session.quarantine()
