"""Replay: events at the pace of their times, or at the time of their arrival."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from thalweg.rdf.chunk import NO_TIME
from thalweg.rdf.events import EventBatch

_SLICE_SECONDS = 0.02
"""Events that are due within this time are taken together."""


@dataclass
class Pace:
    """When events are due: `speedup` seconds of event time pass in a second. The first event is due at once."""

    speedup: float
    clock: Callable[[], float] = time.monotonic
    _begin: float | None = None
    _first: int = 0

    @property
    def width(self) -> int:
        """The microseconds of event time that are taken together."""
        return max(1, int(_SLICE_SECONDS * self.speedup * 1e6))

    def wait_for(self, batch: EventBatch) -> float:
        """The seconds until the first event of a batch is due; at most 0 if it is due."""
        times = batch.times
        times = times[times != NO_TIME]
        if not len(times):
            return 0.0
        now, first = self.clock(), int(times.min())
        if self._begin is None:
            self._begin, self._first = now, first
        return self._begin + (first - self._first) / 1e6 / self.speedup - now


def sliced(batches: Iterator[EventBatch], width: int) -> Iterator[EventBatch]:
    """The same events in batches that span less than `width` microseconds each, in the same order.

    >>> from thalweg.rdf.events import Rows
    >>> times = np.array([0, 5, 9, 10, 30])
    >>> whole = EventBatch("s", Rows.empty(), 30, (), times, 0)
    >>> [(part.first_event, part.times.tolist(), part.clock) for part in sliced(iter([whole]), 10)]
    [(0, [0, 5, 9], 9), (3, [10], 10), (4, [30], 30)]
    """
    before = NO_TIME
    for batch in batches:
        if batch.event_time is None or len(batch.event_time) < 2:
            yield batch
        else:
            yield from _slices(batch, before, width)
        before = batch.clock


def _slices(batch: EventBatch, before: int, width: int) -> Iterator[EventBatch]:
    assert batch.event_time is not None
    times = batch.event_time
    # The largest time so far decides: an event that comes out of order stays behind those before it.
    reached = np.maximum.accumulate(np.maximum(times, before))
    known = np.flatnonzero(reached != NO_TIME)
    origin = int(reached[known[0]]) if len(known) else 0
    step = np.where(reached == NO_TIME, 0, (reached - origin) // width)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(step)) + 1, [len(times)]])
    cuts = np.searchsorted(batch.rows.event, starts + batch.first_event)
    for k in range(len(starts) - 1):
        start, end = int(starts[k]), int(starts[k + 1])
        yield replace(
            batch,
            rows=batch.rows[int(cuts[k]) : int(cuts[k + 1])],
            clock=int(reached[end - 1]),
            rejects=batch.rejects if k == 0 else (),
            event_time=times[start:end],
            first_event=batch.first_event + start,
            inserts=None if batch.inserts is None else batch.inserts[start:end],
        )


def at_arrival(batch: EventBatch, now: int) -> EventBatch:
    """A batch whose events all have the time of their arrival."""
    if not batch.events:
        return replace(batch, clock=now)
    rows = replace(batch.rows, time=np.full(len(batch.rows), now))
    times = batch.event_time
    arrived = None if times is None else np.where(times == NO_TIME, NO_TIME, now)
    return replace(batch, rows=rows, clock=now, event_time=arrived)
