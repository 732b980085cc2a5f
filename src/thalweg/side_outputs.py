"""Outputs of a session beside the answers: late events and malformed input."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from thalweg.answers import Late, Stats, Stream
from thalweg.instants import as_instant, show_instant
from thalweg.operators.runs import in_time_order
from thalweg.options import OnError
from thalweg.rdf.chunk import NO_TIME, Reject
from thalweg.rdf.events import EventBatch

T = TypeVar("T")
_KEPT = 10_000


class SideOutputs:
    """Late events and rejects: all are counted in `stats`, the most recent ones are kept until they are taken."""

    def __init__(self, stats: Stats, on_error: OnError, lateness: int) -> None:
        """`lateness` is how late an event may come, in microseconds."""
        self.stats = stats
        self._on_error = on_error
        self._lateness = lateness
        self._late: deque[Late] = deque(maxlen=_KEPT)
        self._quarantine: deque[Reject] = deque(maxlen=_KEPT)

    def take_late(self) -> list[Late]:
        """Late events since the last call."""
        return _drained(self._late)

    def take_quarantine(self) -> list[Reject]:
        """Rejects since the last call."""
        return _drained(self._quarantine)

    def reject(self, rejects: tuple[Reject, ...]) -> None:
        """Takes malformed input: kept, or an error where the session is to fail."""
        if self._on_error == "fail":
            raise rejects[0].error()
        self.stats.quarantined += len(rejects)
        self._quarantine.extend(rejects)

    def note_late(self, stream: str, at: int, watermark: int, event: int) -> None:
        """Takes one late event."""
        self.stats.late += 1
        reason = f"{(watermark - at) / 1000:g} ms before the watermark {show_instant(watermark)}"
        self._late.append(Late(stream, as_instant(at), as_instant(watermark), event, reason))

    def find_late(self, state: Stream, batch: EventBatch) -> NDArray[np.bool_] | None:
        """Which events of a batch are late, if any; they are noted here, with or without rows.

        An event is late when its time is before the watermark that the events before it have set, whatever
        the batch it came in.
        """
        times = batch.rows.time if batch.event_time is None else batch.event_time
        # The usual case: in order, whether it is asked of events or of their rows.
        if not len(times) or (times.item(0) >= state.watermark and in_time_order(times)):
            return None
        times = batch.times
        before = np.maximum.accumulate(np.concatenate([[state.clock], times[:-1]]))
        floor = np.where(before == NO_TIME, NO_TIME, before - self._lateness)
        floor = np.maximum(floor, state.watermark)
        late = (times < floor) & (times != NO_TIME)
        places = np.flatnonzero(late)
        if not len(places):
            return None
        numbers = batch.numbers
        for place in places.tolist():
            self.note_late(batch.stream, int(times[place]), int(floor[place]), int(numbers[place]))
        return late


def _drained(kept: deque[T]) -> list[T]:
    taken = list(kept)
    kept.clear()
    return taken
