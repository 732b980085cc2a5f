"""The engine of a service: one thread that takes requests in groups, logs them, carries them out, and publishes."""

from __future__ import annotations

import json
import logging
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from thalweg.errors import ThalwegError, UsageError
from thalweg.rdf.chunk import NO_TIME
from thalweg.rows import Row
from thalweg.server.bodies import Body
from thalweg.server.errors import ClosedError, ConflictError, TooMuchError
from thalweg.server.log import DiskError, Folder
from thalweg.server.registry import Plan
from thalweg.server.state import GRACE_MS, Settings, State, results_record, rows_of_record

T = TypeVar("T")
logger = logging.getLogger("thalweg.server")
_GROUP = 256
_TICK_SECONDS = 0.25


def wall_clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Limits:
    """What a service takes at most; more is refused with 413 or 429."""

    body: int = 16 << 20
    """Bytes of one body."""
    queries: int = 10_000
    memory: int | None = None
    """Bytes of windows, answers, terms and rows that wait in the session."""
    events_per_second: int | None = None
    waiting: int = 64 << 20
    """Bytes of bodies that wait for the engine."""
    lease_ms: int = 7 * 24 * 3_600_000
    body_seconds: float = 30.0
    """How long a body may take to come, and one more second for each 64 KiB of it."""


@dataclass
class _Request:
    """An operation that waits for the engine, or a function that looks at the state."""

    future: Future[Any]
    operation: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""
    look: Callable[[State], Any] | None = None
    check: Callable[[State], None] | None = None
    """What refuses the operation before it is logged."""
    read: Body | None = None


class Service:
    """State, log and the thread that owns both."""

    def __init__(
        self,
        path: Path,
        *,
        settings: Settings | None = None,
        limits: Limits | None = None,
        clock: Callable[[], int] = wall_clock,
        snapshot_bytes: int = 64 << 20,
        folder: Callable[[Path], Folder] = Folder,
    ) -> None:
        """`clock` gives milliseconds since the epoch. A snapshot is written when the log has so many bytes."""
        self.limits = limits or Limits()
        self.settings = settings or Settings()
        self.clock = clock
        self.started = clock()
        self.folder = folder(path)
        self.counters = {"groups": 0, "requests": 0, "refused": 0, "snapshots": 0, "replayed": 0}
        self.commit_seconds = 0.0
        self._snapshot_bytes = snapshot_bytes
        self._waiting: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._bucket = float(self.limits.events_per_second or 0)
        self._filled = time.monotonic()
        self._listeners: list[Callable[[Iterable[Plan]], None]] = []
        self._closing = False
        self._taken: list[_Request | None] = []
        self._unlogged: dict[Plan, list[Row]] = {}
        self.failure: str | None = None
        try:
            self.state = State(self.settings, clock, self.folder.snapshot())
            self._replay()
        except BaseException:
            self.folder.close()
            raise
        self._thread = threading.Thread(target=self._run, name="thalweg-engine", daemon=True)
        self._thread.start()

    # For other threads

    def submit(
        self, operation: dict[str, Any], body: bytes = b"", *, check: Callable[[State], None] | None = None
    ) -> Future[dict[str, Any]]:
        """Asks for an operation; the result is there when it is durable and carried out."""
        if self._waiting_bytes + len(body) > self.limits.waiting:
            raise TooMuchError("too many bytes wait for the engine: send them again later")
        self._waiting_bytes += len(body)
        return self._ask(_Request(Future(), operation, body, check=check))

    def look(self, function: Callable[[State], T]) -> Future[T]:
        """What a function finds in the state."""
        return self._ask(_Request(Future(), look=function))

    def _ask(self, request: _Request) -> Future[Any]:
        if self._closing:
            raise ClosedError("the server ends")
        self._waiting.put(request)
        return request.future

    def listen(self, function: Callable[[Iterable[Plan]], None]) -> None:
        """Calls a function, in the engine's thread, with the plans that have new rows or have lost a query."""
        self._listeners.append(function)

    def close(self) -> None:
        """Carries out what waits, writes a snapshot, and ends."""
        if self._closing:
            return
        self._closing = True
        self._waiting.put(None)
        self._thread.join()
        self.folder.close()

    @property
    def healthy(self) -> str | None:
        """Why the service takes no writes, or None where it does."""
        return self.failure or self.folder.log.broken

    @property
    def waiting_bytes(self) -> int:
        """Bytes of bodies that wait."""
        return self._waiting_bytes

    # Operations

    def register(self, given: dict[str, Any], lease_ms: int) -> Future[dict[str, Any]]:
        """Registers a query."""
        operation = {
            "kind": "register",
            "id": secrets.token_hex(8),
            "now": self.clock(),
            "lease_ms": lease_ms,
            "start": "now",
            **given,
        }

        def check(state: State) -> None:
            if len(state.queries) >= self.limits.queries:
                raise TooMuchError(
                    f"{self.limits.queries:,} queries are registered, and that is the most", seconds=60
                )
            self._check_memory(state)
            state.understood(operation)

        return self.submit(operation, check=check)

    def renew(self, id: str, lease_ms: int | None) -> Future[dict[str, Any]]:
        """Begins a lease anew."""
        operation = {"kind": "renew", "id": id, "now": self.clock(), "lease_ms": lease_ms}
        return self.submit(operation, check=lambda state: _ignore(state.query(id)))

    def drop(self, id: str) -> Future[dict[str, Any]]:
        """Drops a query."""
        operation = {"kind": "drop", "id": id, "reason": "dropped"}
        return self.submit(operation, check=lambda state: _ignore(state.query(id)))

    def events(self, operation: dict[str, Any], body: bytes) -> Future[dict[str, Any]]:
        """Takes the events of a body."""
        operation = {"kind": "events", "at": 1000 * self.clock(), **operation}
        return self.submit(operation, body)

    def tick(self) -> None:
        """Ends the leases that are over, and lets time go on in streams of arrival; waits until that is done."""
        self.look(lambda state: self._tick()).result()

    # The thread

    def _run(self) -> None:
        try:
            while self._take():
                pass
        except BaseException as error:
            self.failure = f"the engine has failed: {error!r}"
            logger.critical("engine failed", exc_info=True)
            self._refuse_all()
            raise
        if self.folder.log.size > 8 and self.folder.log.broken is None:
            self._snapshot()

    def _take(self) -> bool:
        try:
            first = self._waiting.get(timeout=self._patience())
        except queue.Empty:
            self._tick()
            return True
        requests: list[_Request | None] = [first]
        while len(requests) < _GROUP and not self._waiting.empty():
            requests.append(self._waiting.get_nowait())
        self._taken = requests
        group: list[_Request] = []
        for request in requests:
            if request is None:
                self._commit(group)
                return False
            if request.operation.get("kind") == "events":
                group.append(request)
                continue
            self._commit(group)
            group = []
            if request.look is not None:
                self._look(request)
            else:
                self._commit([request])
        self._commit(group)
        self._tick()
        if self.folder.log.size > self._snapshot_bytes:
            self._snapshot()
        return True

    def _patience(self) -> float:
        """How long to wait for a request at most."""
        due = self.state.next_expiry
        seconds = 60.0 if due is None else max(0.0, (due - self.clock()) / 1000)
        if any(info.framing.arrival for info in self.state.streams.values()):
            seconds = min(seconds, _TICK_SECONDS)
        return min(max(seconds, 0.001), 60.0)

    def _look(self, request: _Request) -> None:
        assert request.look is not None
        try:
            request.future.set_result(request.look(self.state))
        except Exception as error:
            request.future.set_exception(error)

    def _commit(self, requests: list[_Request]) -> None:
        """Carries out requests as a group: none of them before the log has all of them."""
        if not requests:
            return
        group = [request for request in requests if self._prepare(request, requests)]
        if not group:
            return
        began = time.perf_counter()
        try:
            self.folder.log.append([_record(one.operation, one.body) for one in group])
        except DiskError as error:
            logger.error("log", extra={"reason": str(error)})
            for request in group:
                self._refuse(request, error)
            return
        self.commit_seconds += time.perf_counter() - began
        self.counters["groups"] += 1
        self.counters["requests"] += len(group)
        gone: list[Plan] = []
        answers: list[tuple[_Request, Any]] = []
        for request in group:
            if request.operation["kind"] == "drop":
                gone.append(self.state.queries[request.operation["id"]].plan)
            try:
                answers.append((request, self.state.apply(request.operation, request.body, request.read)))
            except ThalwegError as error:
                answers.append((request, error))
        self._publish(gone)
        for request, answer in answers:
            self._waiting_bytes -= len(request.body)
            if isinstance(answer, ThalwegError):
                request.future.set_exception(answer)
            else:
                request.future.set_result(answer)

    def _prepare(self, request: _Request, group: list[_Request]) -> bool:
        """Whether a request may be logged; one that may not is refused here."""
        operation = request.operation
        try:
            if request.check is not None:
                request.check(self.state)
            if operation["kind"] == "events":
                done = self.state.known(operation.get("key"))
                if done is not None:
                    self._waiting_bytes -= len(request.body)
                    request.future.set_result({**done, "repeated": True})
                    return False
                self._prepare_events(request, group)
        except ThalwegError as error:
            self._refuse(request, error)
            return False
        return True

    def _prepare_events(self, request: _Request, group: list[_Request]) -> None:
        operation = request.operation
        name = operation["stream"]
        if self.state.stream(name).framing.arrival:
            operation["at"] = 1000 * self.clock()
        if self.state.session.is_derived(name):
            raise ConflictError(f"<{name}> is derived from a registered query and takes no other events")
        self._check_memory(self.state)
        self._check_rate()
        before = [one for one in group if one.read is not None and one.operation["stream"] == name]
        operation["place"] = len(before)
        operation["before"] = sum(one.read.events for one in before if one.read is not None)
        request.read = self.state.read(operation, request.body)
        strict = operation.pop("strict", False)
        if strict and request.read.rejects:
            first, request.read = request.read.rejects[0], None
            raise replace(first, source="").error()
        # When it is read from the log, those before it are in the state.
        operation["place"] = operation["before"] = 0
        self._bucket -= request.read.events

    def _check_memory(self, state: State) -> None:
        limit = self.limits.memory
        if limit is not None and (used := state.session.nbytes) > limit:
            raise TooMuchError(f"the session has {used:,} bytes, and {limit:,} are the most", seconds=10)

    def _check_rate(self) -> None:
        limit = self.limits.events_per_second
        if limit is None:
            return
        now = time.monotonic()
        self._bucket = min(float(limit), self._bucket + (now - self._filled) * limit)
        self._filled = now
        if self._bucket <= 0:
            raise TooMuchError(
                f"more than {limit:,} events a second", seconds=max(1.0, -self._bucket / limit)
            )

    def _refuse(self, request: _Request, error: Exception) -> None:
        self._waiting_bytes -= len(request.body)
        self.counters["refused"] += 1
        request.future.set_exception(error)

    def _refuse_all(self) -> None:
        self._closing = True
        left = list(self._taken)
        while not self._waiting.empty():
            left.append(self._waiting.get_nowait())
        for request in left:
            if request is not None and not request.future.done():
                request.future.set_exception(ClosedError(self.failure or "the server ends"))

    def _publish(self, gone: list[Plan]) -> None:
        """Gives new rows to subscribers, after the log has them: a row keeps its number whatever happens."""
        found = self.state.results()
        for plan, rows in found.items():
            if rows:
                self._unlogged.setdefault(plan, []).extend(rows)
        if self._unlogged:
            try:
                self.folder.log.append([results_record(self._unlogged)], sync=False)
                self._unlogged = {}
            except DiskError as error:
                # The operations are in the log, and make these rows again; the next record has these rows, too.
                logger.error("log", extra={"reason": str(error)})
        self.state.publish(found)
        changed = {**found, **dict.fromkeys(gone)}
        if changed:
            for function in self._listeners:
                function(changed)

    def _tick(self) -> None:
        now = self.clock()
        due = self.state.next_expiry
        if due is not None and due <= now:
            for id in self.state.expired(now):
                self._commit([_Request(Future(), {"kind": "drop", "id": id, "reason": "expired"})])
                logger.info("lease expired", extra={"query": id})
        for info in list(self.state.streams.values()):
            late = self.state.session.options.lateness_us
            reached = self.state.session.watermark(info.name)
            begun = reached != NO_TIME and info.framing.arrival
            if begun and 1000 * now - late >= reached + int(1e6 * _TICK_SECONDS):
                operation = {"kind": "advance", "stream": info.name, "at": 1000 * now - late}
                self._commit([_Request(Future(), operation)])

    def _snapshot(self) -> None:
        began = time.perf_counter()
        try:
            data = self.state.save()
            self.folder.write_snapshot(data)
        except DiskError as error:
            self._snapshot_bytes = 2 * max(self._snapshot_bytes, self.folder.log.size)
            logger.error("snapshot", extra={"reason": str(error)})
            return
        self._unlogged = {}  # the snapshot has these rows
        self.counters["snapshots"] += 1
        seconds = round(time.perf_counter() - began, 3)
        logger.info("snapshot", extra={"bytes": len(data), "seconds": seconds})

    def _replay(self) -> None:
        """Carries out what the log has. Rows have the numbers that subscribers have seen."""
        for record in self.folder.log.records():
            operation, body = _parts(record)
            if operation["kind"] == "results":
                self.state.results()
                rows = rows_of_record(operation)
                self.state.publish({self.state.plans[k]: rows[k] for k in rows if k in self.state.plans})
                continue
            try:
                self.state.apply(operation, body)
            except ThalwegError as error:
                logger.info("replay", extra={"reason": str(error)})  # its client was told the same
            self.counters["replayed"] += 1
        # The rows of the last operations may not be in the log: it must have them before the rows of later operations.
        self._publish([])
        now = self.clock()
        for registered in self.state.queries.values():
            registered.expires = max(registered.expires, now + min(registered.lease_ms, GRACE_MS))


def _record(operation: dict[str, Any], body: bytes) -> bytes:
    return json.dumps(operation).encode() + b"\n" + body


def _parts(record: bytes) -> tuple[dict[str, Any], bytes]:
    head, _, body = record.partition(b"\n")
    return json.loads(head), body


def _ignore(found: object) -> None:
    """A look-up that is done for what it raises."""


def checked_lease(given: str | None, limits: Limits, default: int) -> int:
    """A lease in milliseconds, from a duration."""
    from thalweg.arguments import span_of

    if given is None:
        return default
    found = span_of(given) // 1000
    if not 0 < found <= limits.lease_ms:
        raise UsageError(f"a lease is longer than 0 and at most {limits.lease_ms // 3_600_000} hours")
    return found
