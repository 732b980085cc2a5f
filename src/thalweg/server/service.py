"""The engine of a service: one thread that takes requests in groups, logs them, carries them out, and publishes."""

from __future__ import annotations

import json
import logging
import queue
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from thalweg.errors import ThalwegError, UsageError
from thalweg.rdf.chunk import NO_TIME
from thalweg.rows import Row
from thalweg.server.bodies import Read
from thalweg.server.errors import ClosedError, ConflictError, FailedError, TooMuchError
from thalweg.server.keeping import Keeping
from thalweg.server.log import DiskError, Folder
from thalweg.server.registry import Plan
from thalweg.server.requests import Reply, Request, Run
from thalweg.server.state import GRACE_MS, Counts, Settings, State, results_record, rows_of_record

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
    ask_seconds: float = 30.0
    """How long a SPARQL query may take."""
    ask_memory: int = 1 << 30
    """Bytes that its evaluation may take beside the content."""
    ask_bytes: int = 256 << 20
    """Bytes of its answer."""


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
        state: Callable[[Settings, Callable[[], int], bytes | None], State] = State,
    ) -> None:
        """`clock` gives milliseconds since the epoch. A snapshot is written when the log has so many bytes.

        `state` makes the state, anew or from a snapshot: another one runs the queries elsewhere.
        """
        self.limits = limits or Limits()
        self.settings = settings or Settings()
        self.clock = clock
        self.started = clock()
        self.folder = folder(path)
        self.counters = {
            "groups": 0,
            "requests": 0,
            "refused": 0,
            "snapshots": 0,
            "replayed": 0,
            "set_aside": 0,
        }
        self.commit_seconds = 0.0
        self._snapshot_bytes = snapshot_bytes
        self._waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._bucket = float(self.limits.events_per_second or 0)
        self._filled = time.monotonic()
        self._listeners: list[Callable[[Iterable[Plan]], None]] = []
        self._closing = False
        self._taken: list[Request | None] = []
        self._unlogged: dict[Plan, list[Row]] = {}
        self.failure: str | None = None
        self.keeping = Keeping(path / "store", most=self.limits.waiting)
        try:
            self._make_state = state
            if self.keeping.path.exists():
                self.keeping.start()
                self.keeping.wait_until_open()
            self._replay()
            now = clock()
            self.state.extend_leases(lambda one: now + min(one.lease_ms, GRACE_MS))
        except BaseException:
            self.keeping.close()
            self.folder.close()
            raise
        self._thread = threading.Thread(target=self._run, name="thalweg-engine", daemon=True)
        self._thread.start()

    # For other threads

    def submit(
        self, operation: dict[str, Any], body: bytes = b"", *, check: Callable[[State], None] | None = None
    ) -> Future[dict[str, Any]]:
        """Asks for an operation; the result is there when it is durable and carried out."""
        found: Future[dict[str, Any]] = Future()
        self._ask_operation(Request(found, operation, body, check=check))
        return found

    def _ask_operation(self, request: Request) -> None:
        if self._waiting_bytes + len(request.body) > self.limits.waiting:
            raise TooMuchError("too many bytes wait for the engine: send them again later")
        self._ask(request)
        self._waiting_bytes += len(request.body)

    def look(self, function: Callable[[State], T]) -> Future[T]:
        """What a function finds in the state."""
        found: Future[T] = Future()
        self._ask(Request(found, look=function))
        return found

    def _ask(self, request: Request) -> None:
        if self._closing:
            raise ClosedError("the server ends")
        self._waiting.put(request)

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
        self.keeping.close()
        self.folder.close()

    @property
    def healthy(self) -> str | None:
        """Why the service takes no writes, or None where it does."""
        return self.failure or self.folder.log.broken or self.keeping.failure

    def metrics(self) -> list[tuple[str, str, str, float]]:
        """Metrics of the engine beside those of all services: name, kind, meaning, value."""
        return []

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
            output = state.understood(operation).query.output
            if output in state.streams and state.streams[output].keep:
                raise ConflictError(
                    f"<{output}> is kept, and derived streams are not: declare it without keep"
                )

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

    def messages(self, operation: dict[str, Any], body: bytes, sizes: list[int], reply: Reply) -> None:
        """Takes messages that come one after the other in a body (see `Request`); `reply` gets their answers."""
        operation = {"kind": "messages", "at": 1000 * self.clock(), **operation, "sizes": sizes}
        self._ask_operation(Request(reply, operation, body))

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
        if self.folder.log.size > 8 and self.folder.log.broken is None and self.keeping.settled(wait=True):
            self._snapshot()

    def _take(self) -> bool:
        try:
            first = self._waiting.get(timeout=self._patience())
        except queue.Empty:
            self._tick()
            return True
        requests: list[Request | None] = [first]
        while len(requests) < _GROUP and not self._waiting.empty():
            requests.append(self._waiting.get_nowait())
        self._taken = requests
        group: list[Request] = []
        for request in requests:
            if request is None:
                self._commit_events(group)
                return False
            if request.has_events:
                # A body that comes twice in a group is answered when the first one has been taken.
                if request.key is not None and any(one.key == request.key for one in group):
                    self._commit_events(group)
                    group = []
                group.append(request)
                continue
            self._commit_events(group)
            group = []
            if request.look is not None:
                self._look(request)
            else:
                self._commit(request)
        self._commit_events(group)
        self._tick()
        size = self.folder.log.size
        # The log stays until the store has what it has: a store that falls behind is waited for.
        if size > self._snapshot_bytes and self.keeping.settled(wait=size > 2 * self._snapshot_bytes):
            self._snapshot()
        return True

    def _patience(self) -> float:
        """How long to wait for a request at most."""
        due = self.state.next_expiry
        seconds = 60.0 if due is None else max(0.0, (due - self.clock()) / 1000)
        if any(info.framing.arrival for info in self.state.streams.values()):
            seconds = min(seconds, _TICK_SECONDS)
        return min(max(seconds, 0.001), 60.0)

    def _look(self, request: Request) -> None:
        assert request.look is not None
        try:
            request.reply.set_result(request.look(self.state))
        except Exception as error:
            request.reply.set_exception(error)

    def _commit(self, request: Request) -> None:
        """Carries out an operation that is not about events, after the log has it."""
        try:
            if request.check is not None:
                request.check(self.state)
        except ThalwegError as error:
            self._refuse(request, error)
            return
        if not self._log([request]):
            return
        gone = []
        if request.operation["kind"] == "drop":
            gone.append(self.state.queries[request.operation["id"]].plan)
        try:
            answer: Any = self.state.apply(request.operation, request.body)
        except ThalwegError as error:
            answer = error
        except Exception as error:
            (answer,) = self._recover(error, 1, 0)
        self._publish(gone)
        self._answer(request, answer)

    def _log(self, requests: list[Request]) -> bool:
        """Writes requests to the log as a group; where the disk does not take them, they are refused."""
        began = time.perf_counter()
        try:
            self.folder.log.append([one.record for one in requests])
        except DiskError as error:
            logger.error("log", extra={"reason": str(error)})
            for request in requests:
                self._refuse(request, error)
            return False
        self.commit_seconds += time.perf_counter() - began
        self.counters["groups"] += 1
        self.counters["requests"] += len(requests)
        return True

    def _answer(self, request: Request, answer: Any) -> None:
        self._waiting_bytes -= request.counted
        if isinstance(answer, ThalwegError):
            request.reply.set_exception(answer)
        else:
            request.reply.set_result(answer)

    def _commit_events(self, requests: list[Request]) -> None:
        """Carries out requests about events as a group: none of them before the log has all of them."""
        runs: list[Run] = []
        for request in requests:
            if not self._admit(request):
                continue
            if runs and runs[-1].takes(request):
                runs[-1].requests.append(request)
            else:
                runs.append(Run([request]))
        try:
            runs = self._read(runs)
            group = [request for run in runs for request in run.requests]
            if group and self._log(group):
                self._take_events(runs, group)
        finally:
            self.state.forget_reads()

    def _take_events(self, runs: list[Run], group: list[Request]) -> None:
        answers: list[Any] = []
        try:
            for run in runs:
                assert run.read is not None
                number = self.state.counters["steps"]
                counts = self.state.take(run.operation, run.read)
                for start, request in run.starts():
                    self._keep(request.operation, request.body, number + start + len(request.sizes))
                    answer = request.answer(counts, start)
                    self.state.note_key(request.key, answer)
                    answers.append(answer)
        except Exception as error:  # all bodies were read: what is wrong now is wrong in the engine
            found = self._recover(error, len(group), len(answers))
            answers = [
                request.answer(answer, 0) if isinstance(answer, Counts) else answer
                for request, answer in zip(group, found, strict=True)
            ]
        self._publish([])
        for request, answer in zip(group, answers, strict=True):
            self._answer(request, answer)

    def _admit(self, request: Request) -> bool:
        """Whether events may be read; those that may not are refused here, and those that are known are answered."""
        operation = request.operation
        try:
            done = self.state.known(request.key)
            if done is not None:
                self._answer(request, {**done, "repeated": True})
                return False
            name = operation["stream"]
            if self.state.stream(name).framing.arrival:
                operation["at"] = 1000 * self.clock()
            if self.state.session.is_derived(name):
                raise ConflictError(f"<{name}> is derived from a registered query and takes no other events")
            self._check_memory(self.state)
            if self.settings.keep or self.state.stream(name).keep:
                self.keeping.check()
                operation["keep"] = True
        except ThalwegError as error:
            self._refuse(request, error)
            return False
        return True

    def _keep(self, operation: dict[str, Any], body: bytes, number: int) -> None:
        """Has the store keep the events of an operation if it says so; `number` is that of its last message."""
        if operation["kind"] in ("events", "messages") and operation.get("keep"):
            self.keeping.keep(operation, body, number, self.state.streams[operation["stream"]].framing)

    def _read(self, runs: list[Run]) -> list[Run]:
        """Reads the bodies of runs, and gives those of which something is left."""
        bodies: Counter[str] = Counter()
        events: Counter[str] = Counter()
        found = []
        for run in runs:
            name = run.operation["stream"]
            ahead = bodies[name], events[name]
            try:
                read = self.state.read_messages(run.operation, *run.texts(), ahead)
                while self._refuse_some(run, read) and run.requests:
                    read = self.state.read_messages(run.operation, *run.texts(), ahead)
            except ThalwegError as error:
                for request in run.requests:
                    self._refuse(request, error)
                continue
            if not run.requests:
                continue
            for request in run.requests:
                request.operation.pop("strict", None)
            run.read, count = read, int(read.events.sum())
            bodies[name] += len(read)
            events[name] += count
            self._bucket -= count
            found.append(run)
        return found

    def _refuse_some(self, run: Run, read: Read) -> bool:
        """Refuses the messages of a run that are malformed if it is strict, and those above the rate."""
        refused: dict[int, ThalwegError] = {}
        if run.operation.get("strict"):
            refused = {place: replace(one[0], source="").error() for place, one in read.rejects.items()}
        limit = self.limits.events_per_second
        if limit is not None:
            self._fill_bucket(limit)
            events = read.events.copy()
            events[list(refused)] = 0
            above = np.flatnonzero(np.cumsum(events) - events >= self._bucket)
            if len(above):
                seconds = max(1.0, -self._bucket / limit)
                error = TooMuchError(f"more than {limit:,} events a second", seconds=seconds)
                refused |= dict.fromkeys(above.tolist(), error)
        if not refused:
            return False
        left = []
        for start, request in run.starts():
            count = len(request.sizes)
            own = {place - start: refused[place] for place in refused if start <= place < start + count}
            self.counters["refused"] += len(own)
            if not own:
                left.append(request)
            elif request.operation["kind"] == "events":
                self._answer(request, own[0])
            else:
                request.drop(own)
                if request.sizes:
                    left.append(request)
                else:
                    self._answer(request, request.with_errors([]))
        run.requests = left
        return True

    def _check_memory(self, state: State) -> None:
        limit = self.limits.memory
        if limit is not None and (used := state.session.nbytes) > limit:
            raise TooMuchError(f"the session has {used:,} bytes, and {limit:,} are the most", seconds=10)

    def _fill_bucket(self, limit: int) -> None:
        now = time.monotonic()
        self._bucket = min(float(limit), self._bucket + (now - self._filled) * limit)
        self._filled = now

    def _refuse(self, request: Request, error: ThalwegError) -> None:
        self.counters["refused"] += 1
        self._answer(request, error)

    def _refuse_all(self) -> None:
        self._closing = True
        left = list(self._taken)
        while not self._waiting.empty():
            left.append(self._waiting.get_nowait())
        for request in left:
            if request is not None and not request.reply.done():
                request.reply.set_exception(ClosedError(self.failure or "the server ends"))

    def _publish(self, gone: list[Plan]) -> None:
        """Gives new rows to subscribers, after the log has them: a row keeps its number whatever happens."""
        found = self.state.results()
        for plan, rows in found.items():
            if rows:
                self._unlogged.setdefault(plan, []).extend(rows)
        if self._unlogged or self.state.joined:
            try:
                record = results_record(self._unlogged, self.state.joined)
                self.folder.log.append([record], sync=False)
                self._unlogged = {}
                self.state.joined.clear()
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
                self._commit(Request(Future(), {"kind": "drop", "id": id, "reason": "expired"}))
                logger.info("lease expired", extra={"query": id})
        for info in [info for info in self.state.streams.values() if info.framing.arrival]:
            reached = self.state.session.watermark(info.name)
            at = 1000 * now - self.state.session.options.lateness_us
            if reached != NO_TIME and at >= reached + int(1e6 * _TICK_SECONDS):
                self._commit(Request(Future(), {"kind": "advance", "stream": info.name, "at": at}))

    def _snapshot(self) -> None:
        began = time.perf_counter()
        try:
            data = self.state.save()
            self.folder.write_snapshot(data)
        except Exception as error:  # the log has everything
            self._snapshot_bytes = 2 * max(self._snapshot_bytes, self.folder.log.size)
            logger.error("snapshot", extra={"reason": str(error)}, exc_info=not isinstance(error, DiskError))
            return
        self._unlogged = {}  # the snapshot has these rows
        self.state.joined.clear()
        self.counters["snapshots"] += 1
        seconds = round(time.perf_counter() - began, 3)
        logger.info("snapshot", extra={"bytes": len(data), "seconds": seconds})

    # The log

    def _replay(self, count: int = 0) -> list[Any]:
        """Makes the state of the snapshot and the log, and gives the answers to the last operations, so many.

        Rows have the numbers that subscribers have seen. An operation that the engine cannot carry out is set aside,
        and all begins anew without it: it may have been carried out in part.
        """
        while True:
            self.state = self._make_state(self.settings, self.clock, self.folder.snapshot())
            records = list(map(_parts, self.folder.log.records()))
            void = {one["place"]: one["reason"] for one, _ in records if one["kind"] == "void"}
            answers: list[Any] = []
            for place, (operation, body) in enumerate(records):
                if operation["kind"] == "void":
                    continue
                try:
                    if place in void:
                        self.state.skip(operation)
                        raise FailedError(void[place])
                    self._replay_one(operation, body, answers)
                except ThalwegError as error:
                    answers.append(error)  # its client was told the same
                    logger.info("replay", extra={"reason": str(error)})
                except MemoryError:
                    raise
                except Exception as error:
                    self._set_aside(place, error, body)
                    break
            else:
                break
        self.counters["replayed"] = len(answers)
        self._unlogged = {}
        # The rows of the last operations may not be in the log: it must have them before the rows of later operations.
        self._publish([])
        return answers[len(answers) - count :]

    def _replay_one(self, operation: dict[str, Any], body: bytes, answers: list[Any]) -> None:
        if operation["kind"] != "results":
            answers.append(self.state.apply(operation, body))
            self._keep(operation, body, self.state.counters["steps"])
            return
        self.state.results()
        rows = rows_of_record(operation)
        self.state.publish({self.state.plans[k]: rows[k] for k in rows if k in self.state.plans})
        self.state.begin(operation.get("begins", {}))

    def _set_aside(self, place: int, error: Exception, body: bytes) -> None:
        """Marks an operation of the log as one that is not carried out; its body is kept in a file of its own."""
        reason = f"the engine cannot carry this out: {error!r:.500}"
        logger.critical("operation set aside", extra={"place": place, "reason": reason}, exc_info=error)
        self.folder.keep(f"failed-{self.folder.number:08d}-{place:08d}", body)
        record = {"kind": "void", "place": place, "reason": reason}
        self.folder.log.append([json.dumps(record).encode() + b"\n"])
        self.counters["set_aside"] += 1

    def _recover(self, error: Exception, count: int, place: int) -> list[Any]:
        """Goes on after an error of the engine: what it has done in part is thrown away, and made anew from the log.

        The log ends with `count` operations, the one at `place` has failed; gives their answers. Subscriptions end with
        a reason, and go on when their clients connect again.
        """
        records = list(map(_parts, self.folder.log.records()))
        first = len(records) - count
        self._set_aside(first + place, error, records[first + place][1])
        before = self.state
        answers = self._replay(count)
        for registered in before.queries.values():
            registered.ended = "restarted"
        for function in self._listeners:
            function(before.plans.values())
        return answers


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
