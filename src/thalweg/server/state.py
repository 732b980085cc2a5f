"""The state of a service, and the operations that change it: the same operations make the same state again."""

from __future__ import annotations

import json
import struct
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from thalweg.engine import Session
from thalweg.errors import LimitError, ThalwegError, ThalwegWarning, UsageError
from thalweg.instants import LAST, as_instant, show_instant
from thalweg.plan.explain import explain
from thalweg.rdf.arena import Ids
from thalweg.rdf.chunk import NO_TIME
from thalweg.rdf.formats import FORMATS
from thalweg.rows import Row
from thalweg.server.bodies import Framing, Read, read_body
from thalweg.server.canonical import Canonical, canonical
from thalweg.server.errors import ConflictError, UnknownError
from thalweg.server.messages import FORMAT, MessageReader
from thalweg.server.registry import Plan, Rate, Registered, StreamInfo
from thalweg.server.ring import Ring, as_values, of_values
from thalweg.server.sharing import Retention, is_joinable

_LENGTH = struct.Struct("<Q")
_KEYS = 10_000
_UNDERSTOOD = 64
GRACE_MS = 60_000
"""How long a lease lasts at least after a restart: nobody could renew it while the server was down."""


@dataclass(frozen=True)
class Settings:
    """What the state depends on beside its operations."""

    lateness: int | str = 0
    buffer: int = 10_000
    """How many rows of a plan wait for subscribers."""
    threads: int = 1
    keep: bool = False
    """Whether the events of all streams are kept in the store."""


@dataclass(frozen=True)
class Counts:
    """What clients are told of messages: their events, triples, late ones, and what was quarantined."""

    read: Read
    late: Ids

    def answer(self, place: int = 0) -> dict[str, Any]:
        """That of one message."""
        rejects = self.read.rejects.get(place, ())
        answer: dict[str, Any] = {
            "events": int(self.read.events[place]),
            "triples": int(self.read.triples[place]),
            "late": int(self.late[place]),
            "quarantined": len(rejects),
        }
        if self.read.left_out:
            answer["left_out"] = self.read.left_out
        if rejects:
            answer["rejects"] = [shown_reject(one) for one in rejects[:20]]
        return answer

    def texts(self, start: int, end: int) -> list[bytes]:
        """Those of the messages from `start` on, as texts of JSON."""
        columns = (self.read.events, self.read.triples, self.late)
        found = list(map(_plain_answer, *(column[start:end].tolist() for column in columns)))
        for place in self.read.rejects:
            if start <= place < end:
                found[place - start] = json.dumps(self.answer(place)).encode()
        return found


@lru_cache(1 << 12)
def _plain_answer(events: int, triples: int, late: int) -> bytes:
    return json.dumps({"events": events, "triples": triples, "late": late, "quarantined": 0}).encode()


class State:
    """Streams, queries and the session. One thread uses it."""

    def __init__(self, settings: Settings, clock: Callable[[], int], saved: bytes | None = None) -> None:
        """`clock` gives milliseconds since the epoch."""
        self.settings = settings
        self.clock = clock
        self.streams: dict[str, StreamInfo] = {}
        self.plans: dict[int, Plan] = {}
        self.queries: dict[str, Registered] = {}
        self.counters = {"plans": 0, "rows": 0, "expired": 0, "steps": 0, "loads": 0}
        self._by_key: dict[object, Plan] = {}
        self._readers: dict[str, MessageReader] = {}
        self._reads: list[Read] = []
        self._understood: dict[
            str, Canonical
        ] = {}  # a text is checked before it is logged, and registered afterwards
        self.joined: list[Registered] = []
        """Queries that have joined a plan, and whose first rows are not in the log."""
        self._next_expiry: int | None = None
        self._keys: OrderedDict[str, dict[str, Any]] = OrderedDict()
        if saved is None:
            self.session = self._new_session()
        else:
            self._restore(saved)
        # Bodies of a group are read before the first of them is carried out, which may let go of unused terms.
        self.session.keep(self._terms_of_reads)

    def _new_session(self) -> Session:
        settings = self.settings
        return Session(lateness=settings.lateness, max_pending=None, threads=settings.threads)

    def _saved_session(self, saved: bytes) -> Session:
        return Session.restore(saved, threads=self.settings.threads)

    # Operations: each is a dict of JSON values and a body, and is the same when it is read from the log.

    def apply(self, operation: dict[str, Any], body: bytes) -> dict[str, Any] | Counts:
        """Carries out an operation, and answers what the client is told."""
        if operation["kind"] in ("events", "messages"):
            try:
                counts = self.take(operation, self.read(operation, body))
            finally:
                self.forget_reads()
            self.note_key(operation.get("key"), counts.answer())
            return counts
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ThalwegWarning)
            found: dict[str, Any] = getattr(self, f"_do_{operation['kind']}")(operation, body)
            return found

    def read(self, operation: dict[str, Any], body: bytes, ahead: tuple[int, int] = (0, 0)) -> Read:
        """The events of the body of an operation; this changes nothing.

        `ahead` is how many messages and events of its stream were read and not taken yet. What was read is kept in the
        memory of terms until `forget_reads`.
        """
        sizes = operation.get("sizes") or [len(body)]
        return self.read_messages(operation, body, sizes, np.full(len(sizes), operation["at"]), ahead)

    def read_messages(
        self,
        operation: dict[str, Any],
        text: bytes,
        sizes: Sequence[int],
        at: Ids,
        ahead: tuple[int, int] = (0, 0),
    ) -> Read:
        """The events of messages at several times; only N-Triples come as more than one message."""
        info = self.stream(operation["stream"])
        framing = info.framing
        if operation.get("per_event") is not None:
            framing = replace(framing, per_event=operation["per_event"])
        bodies, events = ahead
        if operation["format"] == FORMAT:
            read = self._reader(info.name).read(
                text, sizes, at, per_event=framing.per_event or 1, first_event=info.events + events
            )
        else:
            read = read_body(
                text,
                FORMATS[operation["format"]],
                info.name,
                framing,
                at=int(at[0]),
                number=info.bodies + bodies,
                first_event=info.events + events,
                arena=self.session.arena,
                prune=self.session.prune(),
            )
        self._reads.append(read)
        return read

    def _reader(self, stream: str) -> MessageReader:
        reader, prune = self._readers.get(stream), self.session.prune()
        if reader is None or reader.prune is not prune:
            reader = self._readers[stream] = MessageReader(stream, self.session.arena, prune)
        return reader

    def forget_reads(self) -> None:
        """Keeps the terms no longer that were read and not taken."""
        self._reads.clear()

    def _terms_of_reads(self) -> Iterator[Ids]:
        for read in self._reads:
            for batch in read.batches:
                yield from batch.rows.ids

    def known(self, key: str | None) -> dict[str, Any] | None:
        """What a client was told when it sent the same body with the same key before."""
        return None if key is None else self._keys.get(key)

    def take(self, operation: dict[str, Any], read: Read) -> Counts:
        """Takes the events that were read of the messages of an operation."""
        info = self.streams[operation["stream"]]
        first, late = info.events, self.session.stats.late
        self._step(info, len(read))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ThalwegWarning)
            for batch in read.batches:
                self.session.push_events(batch)
        events = int(read.events.sum())
        info.events += events
        info.triples += int(read.triples.sum())
        for rejects in read.rejects.values():
            info.quarantined += len(rejects)
            info.rejects.extend(rejects)
        counts = Counts(read, self._late(read, first, self.session.stats.late - late))
        info.late += int(counts.late.sum())
        self._rate(info).add(events)
        return counts

    def note_key(self, key: str | None, answer: dict[str, Any]) -> None:
        """Keeps the answer to a body with a key, for when it is sent again."""
        if not key:
            return
        self._keys[key] = answer
        while len(self._keys) > _KEYS:
            self._keys.popitem(last=False)

    def _late(self, read: Read, first: int, count: int) -> Ids:
        """The late events of each message, of so many; `first` is the number of the first event."""
        found = np.zeros(len(read), np.int64)
        noted = self.session.late() if count else ()
        if count and len(read) > 1:
            events = np.array([one.event for one in noted], np.int64) - first
            np.add.at(found, np.searchsorted(np.cumsum(read.events), events, side="right"), 1)
        else:
            found[:1] = count
        return found

    def _step(self, info: StreamInfo, bodies: int = 1) -> None:
        info.bodies += bodies
        self.counters["steps"] += bodies

    def skip(self, operation: dict[str, Any]) -> None:
        """Counts an operation that is not carried out: what follows keeps its number, which the store knows."""
        if operation["kind"] in ("events", "messages"):
            self.counters["steps"] += len(operation.get("sizes") or [0])

    def _do_stream(self, operation: dict[str, Any], body: bytes) -> dict[str, Any]:
        info = self.stream_for(operation["name"])
        retention = operation["retention"]
        if retention is not None:
            self.session.retain(info.name, None if retention == "forever" else retention)
        elif info.retention is not None:
            self.session.release(info.name)
        info.retention_changes += retention != info.retention
        info.declared, info.retention, info.keep = True, retention, operation.get("keep", False)
        info.framing = Framing(**operation["framing"])
        return self.stream_page(info)

    def _do_remove(self, operation: dict[str, Any], body: bytes) -> dict[str, Any]:
        info = self.stream(operation["name"])
        readers = [one.id for one in self.queries.values() if info.name in one.plan.query.query.streams]
        if readers:
            raise ConflictError(f"{len(readers):,} queries read this stream, such as {readers[0]}: drop them")
        self.session.release(info.name)
        del self.streams[info.name]
        self._readers.pop(info.name, None)
        return {}

    def _do_advance(self, operation: dict[str, Any], body: bytes) -> dict[str, Any]:
        info = self.stream(operation["stream"])
        self._step(info)
        self.session.advance(as_instant(operation["at"]), stream=info.name)
        return {"watermark": show_instant(operation["at"])}

    def _do_load(self, operation: dict[str, Any], body: bytes) -> dict[str, Any]:
        count = self.session.load(
            body, graph=operation["graph"], format=operation["format"], replace=operation["replace"]
        )
        self.counters["loads"] += 1
        return {"graph": operation["graph"], "triples": count}

    def _do_register(self, operation: dict[str, Any], body: bytes) -> dict[str, Any]:
        self._next_expiry = None
        asked = self.understood(operation)
        given = {name: operation.get(name) for name in ("stream", "schema", "rules", "start")}
        plan = self._plan_for(asked, operation["start"])
        registered = Registered(
            operation["id"],
            operation["text"],
            plan,
            asked.columns,
            asked.query.template is not None,
            operation["lease_ms"],
            operation["now"] + operation["lease_ms"],
            operation["now"],
            given,
        )
        if plan.seen != self._seen(asked.query.streams):
            registered.join(_at_present(plan), plan.ring.last)
            self.joined.append(registered)
        plan.users[registered.id] = registered
        self.queries[registered.id] = registered
        return self.query_page(registered)

    def _do_renew(self, operation: dict[str, Any], body: bytes) -> dict[str, Any]:
        self._next_expiry = None
        registered = self.query(operation["id"])
        registered.lease_ms = operation["lease_ms"] or registered.lease_ms
        registered.expires = operation["now"] + registered.lease_ms
        return lease_page(registered)

    def _do_drop(self, operation: dict[str, Any], body: bytes) -> dict[str, Any]:
        self._next_expiry = None
        registered = self.query(operation["id"])
        registered.ended = operation["reason"]
        self.counters["expired"] += operation["reason"] == "expired"
        del self.queries[registered.id]
        plan = registered.plan
        del plan.users[registered.id]
        if not plan.users:
            self.session.unregister(plan.query)
            del self.plans[plan.number]
            if self._by_key.get(plan.key) is plan:
                del self._by_key[plan.key]
        return {"id": registered.id, "reason": operation["reason"]}

    # Plans

    def understood(self, operation: dict[str, Any]) -> Canonical:
        """The query of a registration in its canonical form; what is wrong with it is raised."""
        graphs = self.session.static_graphs
        names = ("text", "stream", "schema", "rules")
        key = json.dumps([operation.get(name) for name in names] + [graphs])
        asked = self._understood.get(key)
        if asked is None:
            # Bytes are never taken for the name of a file.
            schema = None if operation.get("schema") is None else operation["schema"].encode()
            asked = canonical(
                operation["text"],
                stream=operation.get("stream"),
                graphs=graphs,
                schema=schema,
                rules=operation.get("rules"),
            )
            if len(self._understood) >= _UNDERSTOOD:
                self._understood.clear()
            self._understood[key] = asked
        absent = [name for name in asked.query.graphs if name and name not in graphs]
        if absent:  # the session would look for a file of this name
            raise UsageError(f"the graph <{absent[0]}> is not loaded: PUT /static?graph={absent[0]}")
        return asked

    def _plan_for(self, asked: Canonical, start: str) -> Plan:
        streams = asked.query.streams
        seen = self._seen(streams)
        key = (asked.key, start, tuple(self.session.static_graphs))
        plan = self._by_key.get(key)
        if plan is not None and plan.failed is None and (plan.seen == seen or self._is_joined(plan)):
            return plan
        query = self.session.register(asked.query, start=start)
        self.counters["plans"] += 1
        retained = self._retained(streams)
        plan = Plan(self.counters["plans"], query, Ring(self.settings.buffer), key, seen, start, retained)
        plan.rate = Rate(self.clock)
        self.plans[plan.number] = plan
        self._by_key[key] = plan
        for name in (*streams, *([asked.query.output] if asked.query.output else [])):
            self.stream_for(name)
        return plan

    def _is_joined(self, plan: Plan) -> bool:
        """Whether a query that is equal to that of a plan, and comes later, begins with the plan's present answer."""
        streams, query = plan.query.query.streams, plan.query.query
        return (
            plan.start == "content"
            and plan.retained == self._retained(streams)
            and not any(map(self.session.is_derived, streams))
            and is_joinable(query, plan.retained)
        )

    def _retained(self, streams: Sequence[str]) -> dict[str, Retention]:
        return {name: self.streams[name].retained for name in streams if name in self.streams}

    def _seen(self, streams: Sequence[str]) -> tuple[tuple[str, int], ...]:
        """How far streams have come; a derived one has come as far as all others together."""
        found = [("", self.counters["loads"])]
        for name in streams:
            info = self.streams.get(name)
            derived = self.session.is_derived(name)
            found.append((name, self.counters["steps"] if derived else info.bodies if info else 0))
        return tuple(found)

    def results(self) -> dict[Plan, list[Row]]:
        """What the answers have gained and lost since the last call, by plan."""
        found = {}
        for plan in self.plans.values():
            if plan.failed is not None:
                continue
            try:
                if not plan.query.pending:
                    plan.query.view.check()
                    continue
                found[plan] = list(plan.query.poll())
            except (LimitError, ThalwegError) as error:
                plan.failed = str(error)
                found[plan] = []
        return found

    def begin(self, begins: dict[str, Any]) -> None:
        """Gives queries that have joined a plan the rows that the log has of their beginnings."""
        for id, (shift, rows) in begins.items():
            if id in self.queries:
                self.queries[id].shift = shift
                self.queries[id].begin = Ring.restored(self.settings.buffer, rows)
        self.joined.clear()

    def publish(self, found: dict[Plan, list[Row]]) -> None:
        """Numbers rows, and gives them to subscribers."""
        for plan, rows in found.items():
            plan.ring.add(rows)
            self.counters["rows"] += len(rows)
            if plan.rate is not None:
                plan.rate.add(len(rows))

    # Looking up

    def stream_for(self, name: str) -> StreamInfo:
        """The stream of a name, which is there from now on."""
        return self.streams.setdefault(name, StreamInfo(name))

    def stream(self, name: str) -> StreamInfo:
        """A stream that is there."""
        if name not in self.streams:
            from thalweg.arguments import nearest

            hint = nearest(name, self.streams).replace("queries read", "there is")
            raise UnknownError(f"there is no stream <{name}>: PUT /streams/{name} declares it{hint}")
        return self.streams[name]

    def query(self, id: str) -> Registered:
        """A registered query."""
        if id not in self.queries:
            raise UnknownError(
                f"there is no query {id[:80]!r}: it was dropped, its lease has expired, or it never was"
            )
        return self.queries[id]

    def expired(self, now: int) -> list[str]:
        """The queries whose leases are over."""
        return [one.id for one in self.queries.values() if one.expires <= now]

    @property
    def next_expiry(self) -> int | None:
        """When the next lease ends, in milliseconds since the epoch."""
        if self._next_expiry is None and self.queries:
            self._next_expiry = min(one.expires for one in self.queries.values())
        return self._next_expiry

    def extend_leases(self, until: Callable[[Registered], int]) -> None:
        """Lets leases last at least as long as a function of their queries says."""
        for registered in self.queries.values():
            registered.expires = max(registered.expires, until(registered))
        self._next_expiry = None

    def _rate(self, info: StreamInfo) -> Rate:
        if info.rate is None:
            info.rate = Rate(self.clock)
        return info.rate

    # Pages

    def stream_page(self, info: StreamInfo) -> dict[str, Any]:
        """A stream as clients see it."""
        return {
            "name": info.name,
            "declared": info.declared,
            "retention": info.retention,
            "keep": info.keep or (self.settings.keep and not self.session.is_derived(info.name)),
            "clock": "arrival" if info.framing.arrival else "event",
            "events": info.events,
            "triples": info.triples,
            "late": info.late,
            "quarantined": info.quarantined,
            "events_per_second": self._rate(info).per_second,
            "watermark": self.watermark(info.name),
            "derived": self.session.is_derived(info.name),
        }

    def watermark(self, name: str) -> str | None:
        """The watermark of a stream as a text."""
        time = self.session.watermark(name)
        return None if time == NO_TIME or time > LAST else show_instant(time)

    def query_page(self, registered: Registered, *, whole: bool = False) -> dict[str, Any]:
        """A query as clients see it; with its plan and its memory if it is asked for as a `whole`."""
        plan = registered.plan
        page = {
            "id": registered.id,
            "query": registered.text,
            **{name: value for name, value in registered.given.items() if value is not None},
            "columns": [own for own, _ in registered.columns],
            "form": "construct" if registered.construct else "ask" if plan.query.query.ask else "select",
            "streams": list(plan.query.query.streams),
            "last": registered.last,
            "plan": plan.number,
            "shared_with": len(plan.users) - 1,
            "failed": plan.failed,
            "waiting": 0,
            **lease_page(registered),
        }
        if whole:
            own = self.understood({"text": registered.text, **registered.given}).query
            infos = [self.streams[name] for name in plan.query.query.streams]
            page |= {
                "explain": explain(own),
                "state": {
                    "rows": plan.query.view.held,
                    "bytes": plan.query.view.nbytes,
                    "window_bytes": plan.query.streamset.window_bytes,
                },
                "rows_per_second": plan.rate.per_second if plan.rate else 0.0,
                "watermarks": {info.name: self.watermark(info.name) for info in infos},
                "late": sum(info.late for info in infos),
                "quarantined": sum(info.quarantined for info in infos),
                "rejects": [shown_reject(one) for info in infos for one in list(info.rejects)[-10:]],
            }
        return page

    # Saving

    def save(self) -> bytes:
        """Everything as bytes."""
        about = {
            "streams": [info.state() for info in self.streams.values()],
            "queries": [one.state() for one in self.queries.values()],
            "plans": [
                {
                    "number": plan.number,
                    "ring": plan.ring.state(),
                    "seen": plan.seen,
                    "start": plan.start,
                    "retained": {name: [one.keep, one.changes] for name, one in plan.retained.items()},
                    "failed": plan.failed,
                }
                for plan in self._in_order()
            ],
            "counters": self.counters,
            "keys": list(self._keys.items()),
        }
        head = json.dumps(about).encode()
        return _LENGTH.pack(len(head)) + head + self.session.save()

    def _in_order(self) -> Iterator[Plan]:
        """The plans in the order of the session's queries."""
        by_query = {plan.query: plan for plan in self.plans.values()}
        return (by_query[query] for query in self.session.queries)

    def _restore(self, saved: bytes) -> None:
        (size,) = _LENGTH.unpack_from(saved)
        about = json.loads(saved[_LENGTH.size : _LENGTH.size + size])
        self.session = self._saved_session(saved[_LENGTH.size + size :])
        self.counters = about["counters"]
        self._keys = OrderedDict(about["keys"])
        self.streams = {one["name"]: StreamInfo.restored(one) for one in about["streams"]}
        for one, query in zip(about["plans"], self.session.queries, strict=True):
            plan = Plan(
                one["number"],
                query,
                Ring.restored(self.settings.buffer, one["ring"]),
                None,
                tuple((name, count) for name, count in one["seen"]),
                one["start"],
                {name: Retention(*values) for name, values in one.get("retained", {}).items()},
                failed=one["failed"],
                rate=Rate(self.clock),
            )
            self.plans[plan.number] = plan
        for one in about["queries"]:
            plan = self.plans[one.pop("plan")]
            columns = tuple((own, name) for own, name in one.pop("columns"))
            begin = one.pop("begin", None)
            registered = Registered(plan=plan, columns=columns, **one)
            if begin is not None:
                registered.begin = Ring.restored(self.settings.buffer, begin)
            self.queries[registered.id] = plan.users[registered.id] = registered
        for plan in self.plans.values():
            user = next(iter(plan.users.values()))
            asked = self.understood({"text": user.text, **user.given})
            plan.key = (asked.key, plan.start, tuple(self.session.static_graphs))
            self._by_key[plan.key] = plan


def lease_page(registered: Registered) -> dict[str, Any]:
    """The lease of a query as clients see it."""
    return {
        "lease": f"{registered.lease_ms}ms",
        "expires": show_instant(1000 * registered.expires),
    }


def shown_reject(reject: Any) -> dict[str, Any]:
    """A refused piece of input as clients see it."""
    return {
        "line": reject.line or None,
        "column": reject.column or None,
        "reason": reject.reason,
        "kind": reject.kind,
        "text": reject.text[:200],
    }


def _at_present(plan: Plan) -> list[Row]:
    """The present answer of a plan as rows that are added to it."""
    return [replace(row, op="+") for row in plan.query.answer()]


def results_record(found: dict[Plan, list[Row]], joined: Sequence[Registered] = ()) -> bytes:
    """Rows as a record of the log: those of plans, and those that queries which have joined a plan begin with."""
    plans = {plan.number: [as_values(row) for row in rows] for plan, rows in found.items() if rows}
    begins = {one.id: [one.shift, one.begin.state()] for one in joined if one.begin is not None}
    return json.dumps({"kind": "results", "plans": plans, "begins": begins}).encode() + b"\n"


def rows_of_record(operation: dict[str, Any]) -> dict[int, list[Row]]:
    """The rows of such a record, by the numbers of plans."""
    return {int(number): list(map(of_values, rows)) for number, rows in operation["plans"].items()}
