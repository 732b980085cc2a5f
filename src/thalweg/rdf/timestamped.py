"""Framing of chunks that state whole events: `number` is an event's place in its chunk, `time` its time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels.frame import scopes_of
from thalweg.kernels.store import INSERT
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.arrivals import Pace, SourceLines
from thalweg.rdf.chunk import NO_TIME, SAME_TIME, Chunk
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.ntriples import scope_of
from thalweg.rdf.stated import changes


class EventFramer:
    """Frames chunks of events in the order of their source.

    Each event has at least one row in its chunk; one with s = 0 stands for an event of which no triple was kept, and
    its op is 0 if there was none at all. The time of an event is that of its first row: NO_TIME is the number of its
    arrival at a given pace, SAME_TIME the time (and the scope of blank nodes) of the event before it in the chunk, so
    that a delete and an insert are one update.
    """

    def __init__(self, stream: str, arena: Arena, pace: Pace | None = None, *, first_event: int = 0) -> None:
        self.stream = stream
        self.arena = arena
        self._pace = pace or Pace()
        self._scope = scope_of(stream)
        self._lines = SourceLines()
        self._events = first_event
        self._arrivals = 0
        self._clock = NO_TIME

    @property
    def clock(self) -> int:
        """The largest time of an event so far, or NO_TIME."""
        return self._clock

    @property
    def ignored(self) -> int:
        """Statements without an event: none."""
        return 0

    def frame(self, chunk: Chunk) -> EventBatch:
        """The events of a chunk."""
        base = self._events
        first = changes(chunk.number)
        place = np.cumsum(first) - 1
        stated = chunk.time[first]
        leads = stated != SAME_TIME
        leader = np.maximum.accumulate(np.where(leads, np.arange(stated.size), 0))
        times = self._timed(stated, leads, chunk.source)[leader]
        s, o = self._scoped(chunk, (base + leader)[place])
        order = self._order(times)
        number = np.empty(times.size, np.int64)  # of an event in the order of the batch
        number[order] = np.arange(base, base + times.size)
        event = number[place]
        rows = np.flatnonzero(s != 0)
        if not _in_order(event[rows]):
            rows = rows[np.argsort(event[rows], kind="stable")]
        self._events += times.size
        self._clock = max(self._clock, int(times.max(initial=NO_TIME)))
        return EventBatch(
            self.stream,
            Rows(times[place], event, chunk.g, s, chunk.p, o, chunk.op)[rows],
            self._clock,
            self._lines.placed(chunk),
            times[order],
            base,
            (chunk.op[first] == INSERT)[order],
        )

    def _order(self, times: Ids) -> Ids:
        """The places of the events in the order in which they are passed on."""
        return np.arange(times.size)

    def _timed(self, stated: Ids, leads: NDArray[np.bool_], source: str) -> Ids:
        """The times of events; those without one have the number of their arrival."""
        arrival = self._arrivals + np.cumsum(leads) - 1
        self._arrivals += int(np.count_nonzero(leads))
        bare = np.flatnonzero(stated == NO_TIME)
        if not bare.size:
            return stated
        times = stated.copy()
        times[bare] = self._pace.times(arrival[bare])
        self._pace.check(int(times[bare[-1]]), int(arrival[bare[-1]]), source)
        return times

    def close(self) -> EventBatch:
        """No event is held back."""
        return EventBatch.empty(self.stream, self._clock)

    def _scoped(self, chunk: Chunk, event: Ids) -> tuple[Ids, Ids]:
        """Subjects and objects of a chunk, blank nodes in the scope of their event."""
        s, o = chunk.s, chunk.o
        if chunk.bnodes:
            rows = np.flatnonzero(s)
            scopes = np.empty(rows.size, np.int64)
            scopes_of(self._scope, event[rows], scopes)
            s, o = (self._renamed(column, rows, scopes) for column in (s, o))
        return s, o

    def _renamed(self, column: Ids, rows: Ids, scopes: Ids) -> Ids:
        named = column[rows]
        self.arena.rescope(named, scopes)
        renamed = column.copy()
        renamed[rows] = named
        return renamed

    def live_ids(self) -> Ids:
        """Ids that are still referred to: none."""
        return np.empty(0, np.int64)

    def state(self) -> bytes:
        """What is needed to go on."""
        front = {
            "events": self._events,
            "arrivals": self._arrivals,
            "clock": self._clock,
            "lines": self._lines.counts,
            "source": self._lines.last,
        }
        return json.dumps(front).encode()

    def restore(self, state: bytes) -> None:
        """Go on from what `state` gave."""
        front = json.loads(state)
        self._events, self._arrivals, self._clock = front["events"], front["arrivals"], front["clock"]
        self._lines.counts, self._lines.last = front["lines"], front["source"]


class TimestampedFramer(EventFramer):
    """Puts the events of a stream's chunks into the order of their times, batch by batch.

    Chunks that come together are merged to one: where messages come through several channels at once, their order means
    nothing, and an event is late only by what earlier batches have seen. In a file the order counts, for what is late
    must not depend on how the file is cut into pieces.
    """

    def _order(self, times: Ids) -> Ids:
        return np.argsort(times, kind="stable")


def merged(chunks: Sequence[Chunk]) -> Chunk:
    """Chunks of events that follow each other or came together, as one."""
    if len(chunks) == 1:
        return chunks[0]
    counts = [int(chunk.number[-1]) + 1 if len(chunk) else 0 for chunk in chunks]
    whole = Chunk.concatenate(chunks)
    bases = np.repeat(np.cumsum([0, *counts[:-1]]), [len(chunk) for chunk in chunks])
    number = np.concatenate([chunk.number for chunk in chunks]) + bases
    return replace(whole, number=number)


def _in_order(column: Ids) -> bool:
    return bool((column[1:] >= column[:-1]).all())


def join_blobs(blobs: Sequence[bytes]) -> bytes:
    """Several byte strings as one."""
    sizes = np.array([len(blobs), *map(len, blobs)], np.int64)
    return sizes.tobytes() + b"".join(blobs)


def split_blobs(data: bytes) -> list[bytes]:
    """The byte strings of `join_blobs`.

    >>> split_blobs(join_blobs([b"a", b"", b"bc"]))
    [b'a', b'', b'bc']
    """
    count = int(np.frombuffer(data, np.int64, 1)[0])
    sizes = np.frombuffer(data, np.int64, count, 8)
    ends = 8 * (count + 1) + np.concatenate([[0], np.cumsum(sizes)])
    return [data[start:end] for start, end in pairwise(ends.tolist())]
