"""The state of a service, and the operations that change it: the same operations make the same state again."""

from __future__ import annotations

import json
import struct
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

from thalweg.engine import Session
from thalweg.errors import LimitError, ThalwegError, ThalwegWarning, UsageError
from thalweg.instants import LAST, as_instant, show_instant
from thalweg.plan.explain import explain
from thalweg.rdf.arena import Ids
from thalweg.rdf.chunk import NO_TIME
from thalweg.rdf.formats import FORMATS
from thalweg.rows import Row
from thalweg.server.bodies import Body, Framing, read_body
from thalweg.server.canonical import Canonical, canonical
from thalweg.server.errors import ConflictError, UnknownError
from thalweg.server.registry import Plan, Rate, Registered, StreamInfo
from thalweg.server.ring import Ring, as_values, of_values

_LENGTH = struct.Struct("<Q")
_KEYS = 10_000
GRACE_MS = 60_000
"""How long a lease lasts at least after a restart: nobody could renew it while the server was down."""


@dataclass(frozen=True)
class Settings:
    """What the state depends on beside its operations."""

    lateness: int | str = 0
    buffer: int = 10_000
    """How many rows of a plan wait for subscribers."""
    threads: int = 1


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
        self._keys: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._bodies: WeakValueDictionary[int, Body] = WeakValueDictionary()
        if saved is None:
            self.session = self._new_session()
        else:
            self._restore(saved)
        # Bodies of a group are read before the first of them is carried out, which may let go of unused terms.
        self.session.keep(self._live_ids)

    def _new_session(self) -> Session:
        settings = self.settings
        return Session(lateness=settings.lateness, max_pending=None, threads=settings.threads)

    def _saved_session(self, saved: bytes) -> Session:
        return Session.restore(saved, threads=self.settings.threads)

    def _live_ids(self) -> Iterator[Ids]:
        """The terms of bodies that were read and may not be carried out yet."""
        for body in list(self._bodies.values()):
            for batch in body.batches:
                yield from batch.rows.ids

    # Operations: each is a dict of JSON values and a body, and is the same when it is read from the log.

    def apply(self, operation: dict[str, Any], body: bytes, read: Body | None = None) -> dict[str, Any]:
        """Carries out an operation, and answers what the client is told; `read` is its body if it was read before."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ThalwegWarning)
            kind = operation["kind"]
            if kind == "events":
                return self._events(operation, read or self.read(operation, body))
            found: dict[str, Any] = getattr(self, f"_do_{kind}")(operation, body)
            return found

    def read(self, operation: dict[str, Any], body: bytes) -> Body:
        """The events of the body of an operation; this changes nothing."""
        info = self.streams[operation["stream"]]
        framing = info.framing
        if operation.get("per_event") is not None:
            framing = replace(framing, per_event=operation["per_event"])
        found = read_body(
            body,
            FORMATS[operation["format"]],
            info.name,
            framing,
            at=operation["at"],
            number=info.bodies + operation.get("place", 0),
            first_event=info.events + operation.get("before", 0),
            arena=self.session.arena,
            prune=self.session.prune(),
        )
        self._bodies[id(found)] = found
        return found

    def known(self, key: str | None) -> dict[str, Any] | None:
        """What a client was told when it sent the same body with the same key before."""
        return None if key is None else self._keys.get(key)

    def _events(self, operation: dict[str, Any], body: Body) -> dict[str, Any]:
        info = self.streams[operation["stream"]]
        late = self.session.stats.late
        self._step(info)
        for batch in body.batches:
            self.session.push_events(batch)
        info.events += body.events
        info.triples += body.triples
        info.quarantined += len(body.rejects)
        info.rejects.extend(body.rejects)
        late = self.session.stats.late - late
        info.late += late
        self.session.late()
        self._rate(info).add(body.events)
        answer: dict[str, Any] = {
            "events": body.events,
            "triples": body.triples,
            "late": late,
            "quarantined": len(body.rejects),
        }
        if body.left_out:
            answer["left_out"] = body.left_out
        if body.rejects:
            answer["rejects"] = [shown_reject(one) for one in body.rejects[:20]]
        if operation.get("key"):
            self._keys[operation["key"]] = answer
            while len(self._keys) > _KEYS:
                self._keys.popitem(last=False)
        return answer

    def _step(self, info: StreamInfo) -> None:
        info.bodies += 1
        self.counters["steps"] += 1

    def _do_stream(self, operation: dict[str, Any], body: bytes) -> dict[str, Any]:
        info = self.stream_for(operation["name"])
        retention = operation["retention"]
        if retention is not None:
            self.session.retain(info.name, None if retention == "forever" else retention)
        elif info.retention is not None:
            self.session.release(info.name)
        info.declared, info.retention = True, retention
        info.framing = Framing(**operation["framing"])
        return self.stream_page(info)

    def _do_remove(self, operation: dict[str, Any], body: bytes) -> dict[str, Any]:
        info = self.stream(operation["name"])
        readers = [one.id for one in self.queries.values() if info.name in one.plan.query.query.streams]
        if readers:
            raise ConflictError(f"{len(readers):,} queries read this stream, such as {readers[0]}: drop them")
        self.session.release(info.name)
        del self.streams[info.name]
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
        plan.users[registered.id] = registered
        self.queries[registered.id] = registered
        return self.query_page(registered)

    def _do_renew(self, operation: dict[str, Any], body: bytes) -> dict[str, Any]:
        registered = self.query(operation["id"])
        registered.lease_ms = operation["lease_ms"] or registered.lease_ms
        registered.expires = operation["now"] + registered.lease_ms
        return lease_page(registered)

    def _do_drop(self, operation: dict[str, Any], body: bytes) -> dict[str, Any]:
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
        # Bytes are never taken for the name of a file.
        schema = None if operation.get("schema") is None else operation["schema"].encode()
        asked = canonical(
            operation["text"],
            stream=operation.get("stream"),
            graphs=graphs,
            schema=schema,
            rules=operation.get("rules"),
        )
        absent = [name for name in asked.query.graphs if name and name not in graphs]
        if absent:  # the session would look for a file of this name
            raise UsageError(f"the graph <{absent[0]}> is not loaded: PUT /static?graph={absent[0]}")
        return asked

    def _plan_for(self, asked: Canonical, start: str) -> Plan:
        streams = asked.query.streams
        seen = self._seen(streams)
        key = (asked.key, start, tuple(self.session.static_graphs))
        plan = self._by_key.get(key)
        if plan is not None and plan.seen == seen and plan.failed is None:
            return plan
        query = self.session.register(asked.query, start=start)
        self.counters["plans"] += 1
        plan = Plan(self.counters["plans"], query, Ring(self.settings.buffer), key, seen, start)
        plan.rate = Rate(self.clock)
        self.plans[plan.number] = plan
        self._by_key[key] = plan
        for name in (*streams, *([asked.query.output] if asked.query.output else [])):
            self.stream_for(name)
        return plan

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
        return min((one.expires for one in self.queries.values()), default=None)

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
            "last": plan.ring.last,
            "plan": plan.number,
            "shared_with": len(plan.users) - 1,
            "failed": plan.failed,
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
                failed=one["failed"],
                rate=Rate(self.clock),
            )
            self.plans[plan.number] = plan
        for one in about["queries"]:
            plan = self.plans[one.pop("plan")]
            columns = tuple((own, name) for own, name in one.pop("columns"))
            registered = Registered(plan=plan, columns=columns, **one)
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


def results_record(found: dict[Plan, list[Row]]) -> bytes:
    """Rows as a record of the log."""
    plans = {plan.number: [as_values(row) for row in rows] for plan, rows in found.items() if rows}
    return json.dumps({"kind": "results", "plans": plans}).encode() + b"\n"


def rows_of_record(operation: dict[str, Any]) -> dict[int, list[Row]]:
    """The rows of such a record, by the numbers of plans."""
    return {int(number): list(map(of_values, rows)) for number, rows in operation["plans"].items()}
