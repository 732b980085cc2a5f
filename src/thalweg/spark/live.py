"""The live engine of a shard: framers and a session, fed with packed chunks, rebuilt from a log of them."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from thalweg.answers import ContinuousQuery, Late
from thalweg.engine import Session
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject
from thalweg.rdf.events import EventBatch
from thalweg.rdf.framing import Framer
from thalweg.spark.encode import Reading, nothing
from thalweg.spark.results import pack_results

_DRAIN = 1 << 18
_MIXED = "triples and graphs in one stream: say how to frame them (mode)"


@dataclass(frozen=True)
class Job:
    """What every task must know: the query, and how the events of its streams are made."""

    text: str
    stream: str | None
    reading: Reading
    lateness: int | str = 0
    drain: bool = False
    quarantine: str | None = None
    late: str | None = None

    @property
    def fingerprint(self) -> str:
        """A digest of all that decides the answers: a checkpoint of another job is not ours."""
        prune, options = self.reading.prune.fingerprint, self.reading.options
        parts = (self.text, self.stream, str(self.lateness), self.drain, prune, options)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


class Arrival(NamedTuple):
    """A packed chunk as it comes from the encoding step."""

    seq: int
    stream: str
    part: int
    source: str
    syntax: Any
    last: bool
    chunk: bytes


class Entry(NamedTuple):
    """A chunk in the log: what a new engine has to be fed with, and from which state of the framer.

    `clock` and `before` are the stream's clock and framer before the chunk, so that an entry does not depend
    on those before it; `latest` is the largest event time among its rows: when that has expired, so has the
    entry.
    """

    stream: str
    mode: str
    latest: int
    clock: int
    last: bool
    before: bytes
    chunk: bytes


@dataclass
class Standing:
    """Where an engine stands, beside the rows that it holds: all that is not in the log."""

    framers: dict[str, bytes]
    clocks: dict[str, int]
    modes: dict[str, str]
    ended: list[str]


class Live:
    """An engine with one query, and the framers of its streams."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.session = Session(lateness=job.lateness)
        self.query: ContinuousQuery = self.session.register(job.text, stream=job.stream)
        self.framers: dict[str, Framer] = {}
        self.standing = Standing({}, {}, {}, [])
        self.index: deque[tuple[int, int]] = deque()
        self.rejects: list[Reject] = []
        self.late: list[Late] = []
        self.events = 0
        self._undrained = 0
        self.session.keep(lambda: [framer.live() for framer in self.framers.values()])

    def take(self, arrival: Arrival) -> tuple[Entry | None, Iterator[bytes]]:
        """Apply a chunk: its entry for the log (None if it left no rows), and packed results if many wait."""
        stream = arrival.stream
        if stream in self.standing.ended:
            return None, iter(())
        entry = self._apply(arrival)
        if arrival.last:
            self.session.finish(stream, drain=self.job.drain)
            self.standing.ended.append(stream)
        return entry, self.results() if self._undrained >= _DRAIN else iter(())

    def _apply(self, arrival: Arrival) -> Entry | None:
        stream = arrival.stream
        mode = self.standing.modes.get(stream)
        if arrival.syntax:
            asked = self.job.reading.options.mode_for(arrival.syntax)
            mode = self.standing.modes.setdefault(stream, asked)
            if mode != asked:
                self.rejects.append(Reject(arrival.source, 0, 0, _MIXED, ""))
                arrival = arrival._replace(chunk=nothing(arrival.source).pack(Arena()))
        if mode is None:  # the end of a stream that never began
            return None
        framer = self._framer(stream, mode)
        before, clock = framer.state(), self.standing.clocks.get(stream, NO_TIME)
        batches = list(_framed(framer, Chunk.unpack(arrival.chunk, self.session.arena), arrival.last))
        for batch in batches:
            self._push(batch)
        self._undrained += sum(map(len, batches))
        latest = max((int(batch.time.max()) for batch in batches if len(batch)), default=None)
        if latest is None:
            return None
        return Entry(stream, mode, latest, clock, arrival.last, before, arrival.chunk)

    def replay(self, entry: Entry) -> None:
        """Apply a chunk of the log again; what it leads to has been told before."""
        framer = self._framer(entry.stream, entry.mode)
        framer.restore(entry.before)
        self.session.push_events(EventBatch.empty(entry.stream, entry.clock))
        chunk = Chunk.unpack(entry.chunk, self.session.arena)
        for batch in _framed(framer, replace(chunk, rejects=()), entry.last):
            self.session.push_events(batch)
        self._forget()

    def resume(self, standing: Standing) -> None:
        """Go to where an earlier engine stood, after its log has been replayed."""
        self.standing = standing
        for stream, state in standing.framers.items():
            self._framer(stream, standing.modes[stream]).restore(state)
        for stream, clock in standing.clocks.items():
            self.session.push_events(EventBatch.empty(stream, clock))
        for stream in standing.ended:
            self.session.finish(stream, drain=self.job.drain)
        self._forget()

    def results(self) -> Iterator[bytes]:
        """What is new in the answer, packed."""
        self._undrained = 0
        return pack_results(self.query, self.session.arena)

    def stand(self) -> Standing:
        """Where the engine stands now."""
        self.standing.framers = {stream: framer.state() for stream, framer in self.framers.items()}
        return self.standing

    def expired(self) -> Iterator[int]:
        """The places of log entries that nothing can use any more; they are forgotten here."""
        horizon = self.session.horizon()
        while horizon is not None and self.index and self.index[0][1] < horizon:
            yield self.index.popleft()[0]

    def _push(self, batch: EventBatch) -> None:
        self.rejects += batch.rejects
        self.events += batch.events
        self.session.push_events(batch)
        if batch.clock != NO_TIME:
            self.standing.clocks[batch.stream] = batch.clock
        self.session.quarantine()
        self.late += self.session.late()

    def _forget(self) -> None:
        self.query.drain()
        self.session.late()
        self.session.quarantine()

    def _framer(self, stream: str, mode: Any) -> Framer:
        if stream not in self.framers:
            options = self.job.reading.options
            self.framers[stream] = Framer(
                stream,
                mode=mode,
                per_event=options.per_event,
                unit_us=options.unit_us,
                rate=options.rate,
                arena=self.session.arena,
            )
        return self.framers[stream]


def _framed(framer: Framer, chunk: Chunk, last: bool) -> Iterator[EventBatch]:
    """The events that a chunk completes, and those that the end of the stream completes."""
    yield framer.frame(chunk)
    if last:
        yield framer.close()
