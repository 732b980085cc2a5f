"""The engine of a shard: framers and a session, fed with packed chunks, rebuilt from a log of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from thalweg.answers import Late
from thalweg.engine import Session
from thalweg.instants import show_instant
from thalweg.options import RunOptions
from thalweg.plan.coverage import Coverage
from thalweg.plan.shares import plain_stream
from thalweg.plan.stages import stages_of
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject
from thalweg.rdf.events import EventBatch
from thalweg.rdf.formats import FORMATS, Framer
from thalweg.rdf.framing import framer_of
from thalweg.rdf.timestamped import TimestampedFramer, merged, split_blobs
from thalweg.spark.changes import parcels
from thalweg.spark.encode import nothing
from thalweg.spark.results import pack_results
from thalweg.spark.routing import EVENTS, GRAPHS, MESSAGES
from thalweg.spark.shard_plan import ShardPlan

_DRAIN = 1 << 18
SAVED = "saved"
"""The mode of entries that hold a part of a saved session."""
_FULL = 1 << 16
_SPARSE = 4
_PART = 16 << 20
_MIXED = "the stream has inputs of several modes (triples, graphs, events): give them as several streams"


class Arrival(NamedTuple):
    """A packed chunk as it comes from the encoding step."""

    seq: int
    stream: str
    part: int
    source: str
    syntax: Any
    last: bool
    chunk: bytes


class LogEntry(NamedTuple):
    """Chunks in the log: what a new engine has to be fed with, and from which state of the framer.

    `clock`, `watermark` and `before` are the stream's clock, watermark and framer before the chunks, so that an entry
    does not depend on those before it; `latest` is the largest event time among its rows: when that has expired, so
    has the entry. Messages that came together are one entry. An entry of the mode `saved` is a part of a session that
    stands for all entries before it, `last` marks the last part.
    """

    stream: str
    mode: str
    latest: int
    clock: int
    watermark: int
    last: bool
    before: bytes
    chunks: bytes = b""


@dataclass
class Positions:
    """Positions of an engine in its streams: its state beside the rows, which are in the log."""

    framers: dict[str, bytes] = field(default_factory=dict)
    clocks: dict[str, int] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    watermarks: dict[str, int] = field(default_factory=dict)
    """Of streams that were idle for too long, or that went on after an end."""
    last_active: dict[str, int] = field(default_factory=dict)
    """When each stream last had input, in milliseconds of the runner's clock."""
    matched: list[int] = field(default_factory=list)
    """The patterns that some triple has fitted."""
    opened: list[int | None] = field(default_factory=list)
    """The first instant of each query that has rows which begin then: the log may not reach back to it."""
    queries: list[dict[str, Any]] = field(default_factory=list)
    """The queries of a set, each with its order and where in the log it was registered; none in other jobs."""
    static: list[int | None] = field(default_factory=list)
    """For each query, from which instant on a new engine has to have static data."""


class Logged(NamedTuple):
    """A new entry of the log: its place, the entry without its chunks, and which arrivals these are in, if any."""

    place: int
    entry: LogEntry
    arrivals: tuple[int, ...]


class _Place(NamedTuple):
    """An entry of the log in the index of an engine."""

    place: int
    latest: int
    rows: int


@dataclass
class BatchResult:
    """The result of a batch, beside the rows of the answer."""

    entries: list[Logged] = field(default_factory=list)
    expired: list[int] = field(default_factory=list)
    positions: Positions = field(default_factory=Positions)
    rejects: list[Reject] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)
    answers: int = 0
    """Rows of the results."""
    events: int = 0
    untimed: int = 0
    """Statements of the default graph without a time."""
    left_out: int = 0
    """Events that were aborted, or of other streams."""
    blanks: int = 0
    """Blank nodes in the rows that came."""
    held: int = 0
    micros: int = 0
    """How long it took."""
    wake_up: int | None = None


class ShardEngine:
    """An engine of one shard with one query, and the framers of its streams."""

    def __init__(self, plan: ShardPlan, shard: int = 0) -> None:
        self.plan = plan
        self.options = plan.options
        self.shard = shard
        self.framers: dict[str, Framer] = {}
        self.positions = Positions()
        self.result = BatchResult()
        self._index: deque[_Place] = deque()
        self._rows = 0
        self._parts: list[bytes] = []
        self._undrained = 0
        self._place = 0  # of the next entry of the log
        self._begin(plan.session(shard))

    def _begin(self, session: Session) -> None:
        self.session = session
        self._coverage = self._covered(self.positions.matched)
        *producers, self.query = session.queries
        for producer in producers:
            producer.discard()
        session.keep(lambda: [framer.live_ids() for framer in self.framers.values()])

    def _covered(self, matched: Iterable[int]) -> Coverage:
        queries = [registered.query for registered in self.session.queries]
        return Coverage(queries, self.session.source_streams, matched, self.session.static_graphs)

    def batch(self, arrivals: Sequence[Arrival], now: int, place: int) -> Iterator[tuple[int, bytes]]:
        """Apply a batch of chunks, at a time of the runner's clock: packed results, and then `result` has the rest.

        With each of the results comes for which shard of the second stage it is, 0 where there is none. `place` is
        that of the next entry of the log.
        """
        self.result = result = BatchResult()
        begun = perf_counter_ns()
        self._reopen({arrival.stream for arrival in arrivals})
        for together in _together(arrivals):
            self._place = place
            entry = self._take([arrivals[k] for k in together])
            if entry is not None:
                result.entries.append(Logged(place, entry, () if entry.chunks else together))
                self._note(place, entry.latest, self._taken)
                place += 1
            if self._undrained >= _DRAIN:
                yield from self._results()
        if self.options.idle_ms is not None:
            self._note_activity({arrival.stream for arrival in arrivals}, now)
            result.wake_up = self._next_timeout(now)
        yield from self._results()
        result.expired = list(self._expired())
        result.held = self.session.live_triples
        if self._rows > max(_FULL, _SPARSE * result.held):
            self._compact(place)
        result.positions = self._current_positions()
        result.micros = (perf_counter_ns() - begun) // 1000

    def _take(self, arrivals: Sequence[Arrival]) -> LogEntry | None:
        """Apply chunks of one stream that belong together; their entry for the log, if they left rows."""
        stream = arrivals[0].stream
        entry = self._apply(stream, arrivals)
        if arrivals[-1].last:
            self.session.finish(stream, drain=self.options.drain)
            self.positions.ended.append(stream)
        return entry

    def _reopen(self, streams: Collection[str]) -> None:
        """Take ended streams as running again, all of a batch before its first chunk is applied."""
        for stream in [stream for stream in self.positions.ended if stream in streams]:
            self.positions.ended.remove(stream)
            self.positions.watermarks[stream] = self.session.reopen(stream)

    def _apply(self, stream: str, arrivals: Sequence[Arrival]) -> LogEntry | None:
        mode = self.positions.modes.get(stream)
        if arrivals[0].syntax:
            asked = mode_of(self.options, arrivals[0].syntax)
            mode = self.positions.modes.setdefault(stream, asked)
            if mode != asked:
                if self._reports_shared_events(stream):
                    self.result.rejects += [Reject(arrival.source, 0, 0, _MIXED, "") for arrival in arrivals]
                blank = nothing(arrivals[0].source).pack(Arena())
                arrivals = [arrival._replace(chunk=blank) for arrival in arrivals]
        if mode is None:  # the end of a stream that never began
            return None
        framer = self._framer(stream, mode)
        before = framer.state()
        position = self.positions.clocks.get(stream, NO_TIME), self.positions.watermarks.get(stream, NO_TIME)
        last = arrivals[-1].last
        chunks, pruned = self._unpack(mode, arrivals)
        self.result.blanks += sum(chunk.blanks for chunk in chunks)
        self.result.left_out += sum(chunk.left_out for chunk in chunks)
        self.result.untimed += sum(chunk.unnamed for chunk in chunks) if mode == GRAPHS else 0
        batches = []
        # What the framer still holds stays in the arena meanwhile.
        for batch in _framed(framer, mode, chunks, last):
            self._push(batch)
            batches.append(batch)
        self._taken = sum(map(self._size, batches))
        self._undrained += self._taken
        if not self._taken:
            return None
        latest = max(int(batch.times.max()) for batch in batches if len(batch.times))
        return LogEntry(stream, mode, latest, *position, last, before, pruned)

    def _unpack(self, mode: str, arrivals: Sequence[Arrival]) -> tuple[list[Chunk], bytes]:
        """The chunks of arrivals; and what the log is to have instead of what came, if anything."""
        return [Chunk.unpack(arrival.chunk, self.session.arena) for arrival in arrivals], b""

    def _size(self, batch: EventBatch) -> int:
        """How much of a batch the log needs: rows, and events if a window counts them."""
        return max(len(batch), batch.events if self.session.counts_events and not self._spreads_events else 0)

    @property
    def _spreads_events(self) -> bool:
        """Whether events that static data answer are spread: a shard has the times of all, and triples of its own."""
        return bool(self.session.static_graphs) and self.plan.shares.events > 1

    def _own(self, batch: EventBatch) -> EventBatch:
        """A batch as the session takes it. Static data answer each event where its triples are: nowhere else."""
        if batch.event_time is None or not self._spreads_events:
            return batch
        return replace(batch, inserts=np.zeros(len(batch.event_time), np.bool_))

    def open(self, positions: Positions) -> None:
        """Take the first instants of the queries from the positions of an earlier engine, before its log."""
        for registered, instant in zip(self.session.queries, positions.opened, strict=True):
            if instant is not None:
                registered.view.open(instant)
        for registered, instant in zip(self.session.queries, positions.static, strict=bool(positions.static)):
            if instant is not None:
                registered.streamset.open_static(instant)

    def replay(self, place: int, entry: LogEntry) -> None:
        """Apply an entry of the log again; its results were written before."""
        if entry.mode == SAVED:
            self._restore(place, entry)
            return
        framer = self._framer(entry.stream, entry.mode)
        framer.restore(entry.before)
        self.session.push_events(EventBatch.empty(entry.stream, entry.clock))
        self._advance(entry.stream, entry.watermark)
        packed = split_blobs(entry.chunks)
        chunks = [replace(Chunk.unpack(chunk, self.session.arena), rejects=()) for chunk in packed]
        rows = 0
        for batch in _framed(framer, entry.mode, chunks, entry.last):
            self.session.push_events(self._own(batch))
            rows += self._size(batch)
        self._note(place, entry.latest, rows)
        self._forget()

    def _compact(self, place: int) -> None:
        """Put the session in the place of a log most of whose rows are gone: by deletes, or beyond counts."""
        latest = max(noted.latest for noted in self._index)
        self.result.expired += [noted.place for noted in self._index]
        self._index.clear()
        saved = self.session.save(with_static=False)
        starts = range(0, len(saved), _PART)
        for start in starts:
            part = saved[start : start + _PART]
            last = start == starts[-1]
            entry = LogEntry("", SAVED, latest, NO_TIME, NO_TIME, last, self._saved_queries(), part)
            self.result.entries.append(Logged(place, entry, ()))
            self._index.append(_Place(place, latest, 0))
            place += 1
        self._rows = 0

    def _restore(self, place: int, entry: LogEntry) -> None:
        self._index.append(_Place(place, entry.latest, 0))
        self._parts.append(bytes(entry.chunks))
        if entry.last:
            self._begin(self._restored(b"".join(self._parts), entry))
            # A stream that had ended when the session was saved may have gone on; `resume` ends those that have not.
            for stream in self.session.source_streams:
                self.session.reopen(stream, tentatively=True)
            self._parts = []

    def _saved_queries(self) -> bytes:
        """What an entry with a saved session has to say of its queries: nothing, they are those of the plan."""
        return b""

    def _restored(self, saved: bytes, entry: LogEntry) -> Session:
        """The session of such an entry."""
        # The text of a query does not name the channels of a shard.
        queries, static = self.plan.queries(self.shard), self.plan.static_data(self.shard)
        return Session.restore(saved, queries=queries, static=static)

    def _note(self, place: int, latest: int, rows: int) -> None:
        self._index.append(_Place(place, latest, rows))
        self._rows += rows

    def resume(self, positions: Positions) -> None:
        """Go on from the positions of an earlier engine, after its log has been replayed."""
        self.positions = positions
        self._coverage = self._covered(positions.matched)
        for stream, state in positions.framers.items():
            self._framer(stream, positions.modes[stream]).restore(state)
        for stream, clock in positions.clocks.items():
            self.session.push_events(EventBatch.empty(stream, clock))
        for stream, watermark in positions.watermarks.items():
            self._advance(stream, watermark)
        for stream in positions.ended:
            self.session.finish(stream, drain=self.options.drain)
        self._forget()

    def _results(self) -> Iterator[tuple[int, bytes]]:
        """What is new in the answer, or in the rows at the cut, packed."""
        self._undrained = 0
        delta, arena = self.query.drain(), self.session.arena
        second = self.plan.shares.second
        if second is None:
            self.result.answers += len(delta)
            yield from ((0, packed) for packed in pack_results(self.query, arena, delta))
        else:
            view, keys = self.query.view, stages_of(self.query.query).keys
            opened = None if view.awaits_start else view.first_instant
            yield from parcels(delta, keys, second.shards, arena, self.query.streamset.bound, opened)

    def _current_positions(self) -> Positions:
        """The positions after the batch."""
        self.positions.framers = {stream: framer.state() for stream, framer in self.framers.items()}
        self.positions.matched = self._coverage.matched
        self._note_queries()
        return self.positions

    def _note_queries(self) -> None:
        """Put into the positions what a new engine needs beside the log to have the queries as they are."""
        queries = self.session.queries
        self.positions.opened = [registered.view.first_instant for registered in queries]
        if self.session.static_graphs:
            before = self.positions.static or [None] * len(queries)
            self.positions.static = [
                registered.streamset.static_since(first)
                for registered, first in zip(queries, before, strict=True)
            ]

    def _expired(self) -> Iterator[int]:
        """The places of log entries that nothing can use any more; they leave the index here."""
        horizon = self.session.horizon()
        while horizon is not None and self._index and self._index[0].latest < horizon:
            gone = self._index.popleft()
            self._rows -= gone.rows
            yield gone.place

    def _note_activity(self, streams: Collection[str], now: int) -> None:
        """Note at which time of the runner's clock streams had input, and go on without those idle for too long.

        A stream that has had no input yet is waited for from the first batch on.
        """
        if self.options.idle_ms is None:
            return
        last_active = self.positions.last_active
        for stream in self.session.source_streams:
            last_active[stream] = now if stream in streams else last_active.get(stream, now)
        clocks = self.positions.clocks
        idle = [stream for stream in last_active if now - last_active[stream] >= self.options.idle_ms]
        active = [clocks[stream] for stream in last_active if stream not in idle and stream in clocks]
        # Where all are idle, none holds the others: time goes to where the first of them is.
        reached = min(active) if active else max(clocks.values(), default=NO_TIME)
        if reached != NO_TIME:
            reached -= self.options.lateness_us
        for stream in idle:
            if (
                reached > self.positions.watermarks.get(stream, NO_TIME)
                and stream not in self.positions.ended
            ):
                self.positions.watermarks[stream] = reached
                self._advance(stream, reached)

    def _next_timeout(self, now: int) -> int | None:
        """When, by the runner's clock, the next stream will have been idle for too long; None: never."""
        if self.options.idle_ms is None:
            return None
        timeouts = [instant + self.options.idle_ms for instant in self.positions.last_active.values()]
        return min((instant for instant in timeouts if instant > now), default=None)

    def _reports_shared_events(self, stream: str) -> bool:
        """Whether this shard and channel reports events and rejects, which all shards and channels have in common."""
        router, plain = self.plan.reading.router, plain_stream(stream)
        first = router.shares.channels_of(router.query, plain)[0]
        return self.shard == 0 and stream == router.shares.stream_of(plain, first)

    def _advance(self, stream: str, watermark: int) -> None:
        if watermark != NO_TIME:
            self.session.advance(show_instant(watermark), stream)

    def _push(self, batch: EventBatch) -> None:
        if self._reports_shared_events(batch.stream):
            self.result.rejects += batch.rejects
            self.result.events += batch.events
        self._coverage.observe(batch.stream, batch.rows, self.session.arena)
        self.session.push_events(self._own(batch))
        if batch.clock != NO_TIME:
            self.positions.clocks[batch.stream] = batch.clock
        self.session.quarantine()
        late = self.session.late()
        if self._reports_shared_events(batch.stream):
            self.result.late += [replace(event, stream=plain_stream(event.stream)) for event in late]

    def _forget(self) -> None:
        self.query.drain()
        self.session.late()
        self.session.quarantine()

    def _framer(self, stream: str, mode: Any) -> Framer:
        if stream not in self.framers:
            options, arena = self.options, self.session.arena
            # Blank nodes are of the stream, whatever the channel through which they come.
            name = plain_stream(stream)
            if mode == MESSAGES:
                made: Framer = TimestampedFramer(name, arena)
            else:
                made = framer_of(
                    name,
                    mode,
                    arena,
                    per_event=options.per_event or 1,
                    unit_us=options.unit_us,
                    rate=options.rate,
                )
            made.stream = stream
            self.framers[stream] = made
        return self.framers[stream]


def _together(arrivals: Sequence[Arrival]) -> Iterator[tuple[int, ...]]:
    """Chunks of files one by one, in their order; messages of a stream all together, for they have none."""
    messages: dict[str, list[int]] = {}
    for number, arrival in enumerate(arrivals):
        if arrival.syntax == MESSAGES:
            messages.setdefault(arrival.stream, []).append(number)
        else:
            yield (number,)
    yield from map(tuple, messages.values())


def mode_of(options: RunOptions, syntax: str) -> str:
    """How chunks of a format are framed; those of payloads and of a journal are events already."""
    return syntax if syntax in (MESSAGES, EVENTS) else options.mode_for(FORMATS[syntax])


def _framed(framer: Framer, mode: str, chunks: list[Chunk], last: bool) -> Iterator[EventBatch]:
    """The events that chunks complete, and those that the end of the stream completes."""
    for chunk in [merged(chunks)] if mode == MESSAGES else chunks:
        yield framer.frame(chunk)
    if last:
        yield framer.close()
