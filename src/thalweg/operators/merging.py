"""Merging: the streams of a streamset in order of time, each held back until all of them have got as far."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels.times import NO_TIME
from thalweg.operators.feeds import GENERATION, in_order, split
from thalweg.operators.state import State
from thalweg.rdf.events import Rows

Ints = NDArray[np.int64]
_NONE = np.empty(0, np.int64)
_FEW_ZEROS = 1 << 12


@dataclass
class _Queue:
    """Rows of one stream that wait until every stream of the set has got as far."""

    parts: list[Rows] = field(default_factory=list)
    generations: list[int] = field(default_factory=list)  # of the parts, while there are some
    watermark: int = NO_TIME
    clock: int = NO_TIME
    finished: bool = False


class Merge:
    """The queues of some streams, their watermarks and their ends."""

    def __init__(self, streams: Sequence[str]) -> None:
        self._queues = {stream: _Queue() for stream in streams}
        self._zeros = _NONE
        self.drains = False
        """Whether time runs on after the end of the streams."""
        self.generation = 0
        """That of the rows that come now; how many times queries have come in mid-stream."""

    def push(self, stream: str, rows: Rows | None, clock: int, watermark: int) -> None:
        """Takes rows of one stream, none before an earlier watermark, its latest time and its new watermark."""
        queue = self._queues[stream]
        if rows is not None and len(rows):
            queue.parts.append(rows)
            if self.generation:
                queue.generations.append(self.generation)
        queue.clock = max(queue.clock, clock)
        queue.watermark = max(queue.watermark, watermark)

    def finish(self, streams: Collection[str], *, drain: bool) -> None:
        """Ends streams."""
        for name, queue in self._queues.items():
            queue.finished = queue.finished or name in streams
        self.drains = self.drains or drain

    def reopen(self, stream: str) -> None:
        """Takes an ended stream as running again."""
        self._queues[stream].finished = False

    def drop_markers(self) -> None:
        """Drops the waiting markers of events: no window counts events any more."""
        for queue in self._queues.values():
            kept = [rows if rows.s.all() else rows[rows.s != 0] for rows in queue.parts]
            pairs = zip(queue.generations, kept, strict=True) if self.generation else ()
            queue.generations = [generation for generation, rows in pairs if len(rows)]
            queue.parts = [rows for rows in kept if len(rows)]

    def begin_generation(self, generation: int) -> None:
        """Distinguishes the rows that come from now on from those before; generation 0 is to distinguish none."""
        for queue in self._queues.values():
            if not generation:
                queue.generations = []
            elif not self.generation:
                queue.generations = [0] * len(queue.parts)
        self.generation = generation

    @property
    def finished(self) -> bool:
        """Whether all streams have ended."""
        return all(queue.finished for queue in self._queues.values())

    @property
    def ended(self) -> bool:
        """Whether some stream has ended."""
        return any(queue.finished for queue in self._queues.values())

    @property
    def clock(self) -> int:
        """The largest time of an event that has come."""
        return max(queue.clock for queue in self._queues.values())

    def target(self, reach: int) -> int:
        """How far time has come: the smallest watermark of the streams that have not ended.

        After the end of all of them that is the instant after the last event, or, if they drain, `reach` more.
        """
        running = [queue.watermark for queue in self._queues.values() if not queue.finished]
        if running:
            return min(running)
        last = max(queue.clock for queue in self._queues.values())
        if last == NO_TIME:
            return last
        end = last + 1 + (reach if self.drains else 0)
        return max(end, *(queue.watermark for queue in self._queues.values()))

    def take(self, bound: int) -> tuple[Ints, Rows]:
        """Takes the rows up to `bound` and the numbers of their streams: by time, by stream, then as they came.

        Above GENERATION bits, the numbers have the generations of the rows.
        """
        if self.generation:
            return self._take_generations(bound)
        if len(self._queues) == 1:
            (queue,) = self._queues.values()
            # No row is later than the clock.
            taken, queue.parts = (queue.parts, []) if queue.clock <= bound else split(queue.parts, bound)
            count = sum(map(len, taken))
            if count > len(self._zeros):
                self._zeros = np.zeros(2 * count, np.int64)
            return in_order(self._zeros[:count], taken)
        feeds: list[Ints] = [_NONE]
        parts: list[Rows] = []
        for number, queue in enumerate(self._queues.values()):
            taken, queue.parts = split(queue.parts, bound)
            feeds += [np.full(len(rows), number, np.int64) for rows in taken]
            # Each stream numbers its own events; [NOW] must distinguish them.
            parts += [
                Rows(rows.time, rows.event * len(self._queues) + number, *rows.columns[2:]) for rows in taken
            ]
        return in_order(np.concatenate(feeds), parts)

    def _take_generations(self, bound: int) -> tuple[Ints, Rows]:
        feeds: list[Ints] = [_NONE]
        parts: list[Rows] = []
        streams = len(self._queues)
        for number, queue in enumerate(self._queues.values()):
            waiting = list(zip(queue.parts, queue.generations, strict=True))
            queue.parts, queue.generations = [], []
            for rows, generation in waiting:
                taken, later = split([rows], bound)
                queue.parts += later
                queue.generations += [generation] * len(later)
                feeds += [np.full(len(rows), generation << GENERATION | number, np.int64) for rows in taken]
                parts += [
                    rows
                    if streams == 1
                    else Rows(rows.time, rows.event * streams + number, *rows.columns[2:])
                    for rows in taken
                ]
        return in_order(np.concatenate(feeds), parts)

    def give_back(self, fed: int) -> None:
        """Returns memory that as many rows as were just taken do not need."""
        if len(self._zeros) > 8 * fed + _FEW_ZEROS:
            self._zeros = _NONE

    @property
    def waiting(self) -> Iterator[Rows]:
        """The rows that wait."""
        return (rows for queue in self._queues.values() for rows in queue.parts)

    def state(self) -> State:
        """The rows that wait, and how far each stream is."""
        queues = {
            name: {
                "parts": [rows.columns for rows in queue.parts],
                "generations": queue.generations,
                "watermark": queue.watermark,
                "clock": queue.clock,
                "finished": queue.finished,
            }
            for name, queue in self._queues.items()
        }
        return {"queues": queues, "drains": self.drains, "generation": self.generation}

    def restore(self, state: State) -> None:
        """Goes on where saved streams were."""
        self.drains, self.generation = state["drains"], state["generation"]
        for name, saved in state["queues"].items():
            parts = [Rows(*columns) for columns in saved["parts"]]
            self._queues[name] = _Queue(
                parts, saved["generations"], saved["watermark"], saved["clock"], saved["finished"]
            )
