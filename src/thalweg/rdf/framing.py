"""Chunks to events: which statements make an event, and what its time is."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import frame as kernel
from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.arrivals import Pace, SourceLines
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject, replace_ids
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.formats import Framer, Mode
from thalweg.rdf.ntriples import scope_of
from thalweg.rdf.timestamped import EventFramer

Columns = tuple[Ids, Ids, Ids, Ids, Ids]
"""event, graph, s, p, o"""

_VERSION = 1


def _pick(columns: Columns, key: Any) -> Columns:
    event, graph, s, p, o = columns
    return event[key], graph[key], s[key], p[key], o[key]


def _join(parts: list[Columns]) -> Columns:
    none = np.empty(0, dtype=np.int64)
    event, graph, s, p, o = (np.concatenate([none, *(part[k] for part in parts)]) for k in range(5))
    return event, graph, s, p, o


class StatementFramer:
    """Frames the chunks of one stream, in order.

    triples: `per_event` statements, or a whole document, make an event, and event k has time k * unit_us, or
    k / rate seconds where a rate (events a second) is given; an event is emitted when it is complete. graphs: a
    run of quads with one graph name is an event, its time is given by a timestamp of the default graph or in it
    (see `kernels.frame`); it is emitted when the next graph has begun, it has a time, and so have those before it.

    The arena (that of the chunks) is needed for graphs and for blank nodes that await their scope. What
    `live` gives must stay in it.
    """

    def __init__(
        self,
        stream: str,
        *,
        mode: Mode = "triples",
        per_event: int = 1,
        unit_us: int = 1000,
        rate: int | float | Fraction | None = None,
        arena: Arena | None = None,
    ) -> None:
        if mode not in ("triples", "graphs"):
            raise ValueError(f"events are 'triples' or 'graphs', not {mode!r}")
        if per_event < 1:
            raise ValueError(f"an event of {per_event} statements")
        if mode == "graphs" and arena is None:
            raise ValueError("framing of graphs needs the arena of the chunks")
        self.stream = stream
        self.mode = mode
        self.per_event = per_event
        self._pace = Pace.of(unit_us, rate)
        self.arena = arena
        self.ignored = 0
        """Statements of the default graph without a time (graphs only)."""
        self._scope = scope_of(stream)
        self._statements = 0
        self._emitted = 0
        self._clock = NO_TIME
        self._lines = SourceLines()
        self._held: list[Columns] = []
        self._control = np.zeros(8, dtype=np.int64)
        self._table = np.zeros((kernel.SLOTS if mode == "graphs" else 0, 4), dtype=np.int64)
        self._spare = np.zeros_like(self._table)
        self._queue = np.zeros((0, 4), dtype=np.int64)

    @property
    def clock(self) -> int:
        """The largest time of an event so far, or NO_TIME."""
        return self._clock

    def frame(self, chunk: Chunk) -> EventBatch:
        """The events that this chunk completes."""
        rejects = self._lines.placed(chunk)
        if self.mode == "triples":
            return self._triples(chunk, rejects)
        return self._graphs(chunk, rejects)

    def close(self) -> EventBatch:
        """What was still held back: the stream has ended."""
        if self.mode == "triples":
            events = -(-self._statements // self.per_event)
            # Where the stream goes on nevertheless, its next statement begins another event.
            self._statements = events * self.per_event
            return self._emit_triples(events, ())
        kernel.end_run(self._table, self._spare, self._control, self._queue)
        self._queue[self._queue[:, kernel.STATE] == kernel.WAITS, kernel.STATE] = kernel.REFUSED
        return self._emit_graphs(())

    def _rows(self, chunk: Chunk, event: Ids, data: NDArray[np.bool_] | None) -> Columns:
        """The chunk's rows that are data, with blank nodes in the scope of their event."""
        columns = (event, chunk.g, chunk.s, chunk.p, chunk.o)
        if data is not None:
            columns = _pick(columns, data)
        if chunk.bnodes == 0:
            return columns
        if self.arena is None:
            raise ValueError("blank nodes that await their scope: the framer needs the arena of the chunks")
        event, g, s, p, o = columns
        s, o = s.copy(), o.copy()
        scopes = np.empty(event.size, dtype=np.int64)
        kernel.scopes_of(self._scope, event, scopes)
        self.arena.rescope(s, scopes)
        self.arena.rescope(o, scopes)
        return event, g, s, p, o

    def _triples(self, chunk: Chunk, rejects: tuple[Reject, ...]) -> EventBatch:
        if chunk.whole:
            # A document is an event of its own, behind what is begun.
            self._statements = -(-self._statements // self.per_event) * self.per_event
            event = np.full(len(chunk), self._statements // self.per_event)
        else:
            event = chunk.number + self._statements
            if self.per_event > 1:
                event //= self.per_event
        data = chunk.p != 0
        self._held.append(self._rows(chunk, event, None if data.all() else data))
        if chunk.whole:
            self._statements += self.per_event * bool(chunk.statements)
        else:
            self._statements += chunk.statements
        return self._emit_triples(self._statements // self.per_event, rejects)

    def _emit_triples(self, complete: int, rejects: tuple[Reject, ...]) -> EventBatch:
        columns = self._take(complete)
        first, self._emitted = self._emitted, complete
        times = self._pace.times(np.arange(first, complete))
        if complete > first:
            self._clock = int(times[-1])
            self._pace.check(self._clock, complete - 1, self._lines.last)
        return self._batch(columns, times, first, rejects)

    def _batch(self, columns: Columns, times: Ids, first: int, rejects: tuple[Reject, ...]) -> EventBatch:
        """Rows of whole events, with the times of all events from number `first` on, also of those without rows."""
        event, graph, s, p, o = columns
        rows = Rows.inserts(times[event - first], event, graph, s, p, o)
        return EventBatch(self.stream, rows, self._clock, rejects, times, first)

    def _graphs(self, chunk: Chunk, rejects: tuple[Reject, ...]) -> EventBatch:
        room = np.empty((len(self._queue) + len(chunk), 4), dtype=np.int64)
        room[: len(self._queue)] = self._queue
        event = np.empty(len(chunk), dtype=np.int64)
        kernel.number_rows(chunk.g, chunk.s, chunk.time, self._table, self._spare, self._control, room, event)
        self._queue = room[: int(self._control[kernel.BEGUN] - self._control[kernel.FIRST])]
        self.ignored += chunk.unnamed
        self._held.append(self._rows(chunk, event, (event >= 0) & (chunk.s != 0) & (chunk.p != 0)))
        return self._emit_graphs(rejects)

    def _emit_graphs(self, rejects: tuple[Reject, ...]) -> EventBatch:
        waits = np.flatnonzero(self._queue[:, kernel.STATE] == kernel.WAITS)
        ended = int(waits[0]) if waits.size else len(self._queue)
        done, self._queue = self._queue[:ended], self._queue[ended:].copy()
        first = int(self._control[kernel.FIRST])
        self._control[kernel.FIRST] += ended
        timed = done[:, kernel.STATE] == kernel.TIMED
        times = done[:, kernel.TIME]
        columns = self._take(first + ended)
        if not timed.all():
            columns = _pick(columns, timed[columns[0] - first])
            rejects += self._untimed(done[~timed, kernel.GRAPH])
        # Events without rows count too: whether one is late must not depend on what queries want.
        times = np.where(timed, times, NO_TIME)
        self._clock = max(self._clock, int(times.max(initial=NO_TIME)))
        return self._batch(columns, times, first, rejects)

    def _untimed(self, graphs: Ids) -> tuple[Reject, ...]:
        assert self.arena is not None
        return tuple(
            Reject(self._lines.last, 0, 0, f"graph {graph} has no time", graph[:500], "untimed")
            for graph in self.arena.texts(graphs)
        )

    def _take(self, limit: int) -> Columns:
        """Rows of the events below `limit`, from the front of what is held."""
        taken: list[Columns] = []
        while self._held:
            columns = self._held.pop(0)
            cut = int(np.searchsorted(columns[0], limit))
            if cut:
                taken.append(_pick(columns, slice(cut)))
            if cut < columns[0].size:
                # A copy, so that the rest does not keep what was taken.
                self._held.insert(0, _pick(columns, np.arange(cut, columns[0].size)))
                break
        return taken[0] if len(taken) == 1 else _join(taken)

    def live_ids(self) -> Ids:
        """Ids that the framer still refers to."""
        held = [columns[k] for columns in self._held for k in range(1, 5)]
        graphs = self._table[self._table[:, 0] != 0, 0]
        return np.concatenate([graphs, self._queue[:, kernel.GRAPH], self._control[[kernel.OPEN]], *held])

    def state(self) -> bytes:
        """Everything that a framer of the same stream needs to go on, with the terms that it refers to."""
        held = _join(self._held)
        used = self._table[self._table[:, 0] != 0]
        parts = [self._control, used.ravel(), self._queue.ravel(), *held]
        records = self.arena.records_of(self.live_ids()) if self.arena is not None else b""
        front: dict[str, Any] = {
            "version": _VERSION,
            "mode": self.mode,
            "statements": self._statements,
            "emitted": self._emitted,
            "ignored": self.ignored,
            "clock": self._clock,
            "lines": self._lines.counts,
            "source": self._lines.last,
            "sizes": [part.size for part in parts],
        }
        return b"\n".join([json.dumps(front).encode(), b"".join(part.tobytes() for part in parts) + records])

    def restore(self, state: bytes) -> None:
        """Go on from what `state` gave, also in another process with another arena."""
        head, _, body = state.partition(b"\n")
        front = json.loads(head)
        if front["version"] != _VERSION or front["mode"] != self.mode:
            raise ValueError(f"not the state of a framer of {self.mode}: {head[:80]!r}")
        parts = []
        at = 0
        for size in front["sizes"]:
            parts.append(np.frombuffer(body[at : at + 8 * size], dtype=np.int64).copy())
            at += 8 * size
        differing = self.arena.merge(body[at:]) if self.arena is not None else None
        control, used, queue, *held = parts
        entries, queue = used.reshape(-1, 4), queue.reshape(-1, 4)
        if differing is not None:
            control[kernel.OPEN] = replace_ids(control[[kernel.OPEN]], *differing)[0]
            entries[:, 0] = replace_ids(entries[:, 0], *differing)
            queue[:, kernel.GRAPH] = replace_ids(queue[:, kernel.GRAPH], *differing)
            held[1:] = [replace_ids(column, *differing) for column in held[1:]]
        self._control, self._queue = control, queue
        self._table[:] = 0
        kernel.enter_all(self._table, entries)
        event, g, s, p, o = held
        self._held = [(event, g, s, p, o)] if event.size else []
        self._statements = front["statements"]
        self._emitted = front["emitted"]
        self.ignored = front["ignored"]
        self._clock = front["clock"]
        self._lines.counts, self._lines.last = front["lines"], front["source"]


def framer_of(
    stream: str,
    mode: Mode,
    arena: Arena,
    *,
    per_event: int = 1,
    unit_us: int = 1000,
    rate: int | float | Fraction | None = None,
) -> Framer:
    """The framer of a stream that is read from files, for chunks in the arena."""
    if mode == "events":
        return EventFramer(stream, arena, Pace.of(unit_us, rate))
    return StatementFramer(stream, mode=mode, per_event=per_event, unit_us=unit_us, rate=rate, arena=arena)
