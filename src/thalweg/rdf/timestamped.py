"""Framing of chunks whose events have timestamps: `number` is an event's place in its chunk, `time` its time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from thalweg.kernels.frame import scopes_of
from thalweg.kernels.store import INSERT
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.chunk import NO_TIME, Chunk
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.ntriples import scope_of


class TimestampedFramer:
    """Puts the events of a stream's chunks into the order of their times, batch by batch.

    Chunks that come together are merged to one: where messages come through several channels at once, their order means
    nothing, and an event is late only by what earlier batches have seen. Each event has at least one row in its
    chunk; one with s = 0 stands for an event of which no triple was kept, and its op is 0 if there was none at all.
    """

    def __init__(self, stream: str, arena: Arena) -> None:
        self.stream = stream
        self.arena = arena
        self._scope = scope_of(stream)
        self._events = 0
        self._clock = NO_TIME

    @property
    def clock(self) -> int:
        """The largest time of an event so far, or NO_TIME."""
        return self._clock

    def frame(self, chunk: Chunk) -> EventBatch:
        """The events of a chunk; messages that came together are one (`merged`)."""
        base = self._events
        event, time, g, s, p, o, op = self._scoped(chunk, chunk.number + base)
        first = np.concatenate([np.ones(min(event.size, 1), np.bool_), event[1:] != event[:-1]])
        times = time[first]
        order = np.argsort(times, kind="stable")
        number = np.empty(order.size, np.int64)  # of an event in the order of time
        number[order] = np.arange(base, base + order.size)
        event = number[event - base]
        rows = np.flatnonzero(s != 0)
        rows = rows[np.argsort(event[rows], kind="stable")]
        self._events += order.size
        self._clock = max(self._clock, int(times.max(initial=NO_TIME)))
        return EventBatch(
            self.stream,
            Rows(time, event, g, s, p, o, op)[rows],
            self._clock,
            chunk.rejects,
            times[order],
            base,
            (op[first] == INSERT)[order],
        )

    def close(self) -> EventBatch:
        """No event is held back."""
        return EventBatch.empty(self.stream, self._clock)

    def _scoped(self, chunk: Chunk, event: Ids) -> tuple[Ids, ...]:
        """The columns of a chunk, blank nodes in the scope of their event."""
        s, o = chunk.s, chunk.o
        if chunk.bnodes:
            rows = np.flatnonzero(s)
            scopes = np.empty(rows.size, np.int64)
            scopes_of(self._scope, event[rows], scopes)
            s, o = (self._renamed(column, rows, scopes) for column in (s, o))
        return event, chunk.time, chunk.g, s, chunk.p, o, chunk.op

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
        return json.dumps({"events": self._events, "clock": self._clock}).encode()

    def restore(self, state: bytes) -> None:
        """Go on from what `state` gave."""
        front = json.loads(state)
        self._events, self._clock = front["events"], front["clock"]


def merged(chunks: Sequence[Chunk]) -> Chunk:
    """Chunks of events that came together, as one."""
    if len(chunks) == 1:
        return chunks[0]
    counts = [int(chunk.number[-1]) + 1 if len(chunk) else 0 for chunk in chunks]
    whole = Chunk.concatenate(chunks)
    bases = np.repeat(np.cumsum([0, *counts[:-1]]), [len(chunk) for chunk in chunks])
    number = np.concatenate([chunk.number for chunk in chunks]) + bases
    return replace(
        whole, number=number, rejects=tuple(reject for chunk in chunks for reject in chunk.rejects)
    )


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
