"""Timeline and counted rows: the two states that turn solutions with a lifetime into signed rows in time order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import rowmap, timeline
from thalweg.kernels.checking import address_of
from thalweg.kernels.layout import OUT_BINDINGS, OUT_FROM, OUT_WEIGHT
from thalweg.kernels.store import FOREVER
from thalweg.operators.spans import Changes, Spans
from thalweg.operators.state import State

Ints = NDArray[np.int64]
_FEW = 64
_LITTLE = 1024  # rows that are not worth a look


def _enlarged(array: Ints, size: int) -> Ints:
    grown = np.empty((size, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


class Timeline:
    """Signed rows that wait for their instant."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._clear()

    def _clear(self) -> None:
        cells = timeline.ROW_BINDINGS + self._width
        self._queue, self._rows = np.empty((0, cells), np.int64), np.empty((0, cells), np.int64)
        self._links = np.empty(0, np.int64)
        self._heads = np.empty((0, timeline.BUCKET_CELLS), np.int64)
        self._marks = np.zeros(timeline.MARKS, np.int64)
        self._marks[timeline.CELLS] = cells
        self._marks[timeline.FREE] = -1

    def __len__(self) -> int:
        return self._marks.item(timeline.WAITING)

    @property
    def due(self) -> int | None:
        """The earliest instant that waits."""
        item = self._marks.item
        return item(timeline.DUE) if item(timeline.WAITING) else None

    def schedule(self, spans: Spans) -> None:
        """Adds the beginning and the end of each solution's life."""
        self._schedule(spans.cells, in_order=True)

    def _schedule(self, solutions: Ints, *, in_order: bool) -> None:
        done = False
        while not done:
            done, levels, blocks, queued = timeline.schedule(self._marks, solutions, OUT_BINDINGS, in_order)
            if not done and levels:
                self._make_room(levels, blocks, queued)
            elif not done:  # before what was taken last: only where a stream does not keep its order
                waiting = self._lives()
                self._clear()
                solutions, in_order = np.concatenate([solutions[:, : waiting.shape[1]], waiting]), False

    def pop(self, until: int) -> Changes:
        """Takes what is due at or before `until`, in time order."""
        parts: list[Changes] = []
        room = 256
        item = self._marks.item
        while (waiting := item(timeline.WAITING)) and item(timeline.DUE) <= until:
            room = max(min(4 * room, waiting), timeline.BLOCK)
            times, weights = np.empty(room, np.int64), np.empty(room, np.int64)
            rows = np.empty((room, self._width), np.int64)
            taken, wanted = timeline.pop(self._marks, until, times, weights, rows)
            if wanted:
                self._make_room(0, wanted, 0)
            parts.append(Changes(times[:taken], weights[:taken], rows[:taken]))
        return Changes.concat(parts, self._width)

    def rows(self) -> Ints:
        """The bindings of everything that waits."""
        return self._lives()[:, OUT_BINDINGS:]

    def state(self) -> State:
        """What waits: times, and weights with bindings."""
        lives = self._lives()
        return {
            "times": lives[:, OUT_FROM],
            "rows": lives[:, [OUT_WEIGHT, *range(OUT_BINDINGS, lives.shape[1])]],
        }

    def restore(self, state: State) -> None:
        """Waits for what a saved timeline waited for."""
        lives = np.full((len(state["times"]), OUT_BINDINGS + self._width), FOREVER, np.int64)
        lives[:, OUT_FROM] = state["times"]
        lives[:, OUT_WEIGHT] = state["rows"][:, 0]
        lives[:, OUT_BINDINGS:] = state["rows"][:, 1:]
        self._clear()
        self._schedule(lives, in_order=False)

    def _lives(self) -> Ints:
        """What waits, in no order, as the beginnings of solutions without an end."""
        lives = np.full((len(self), OUT_BINDINGS + self._width), FOREVER, np.int64)
        timeline.gather(self._marks, lives, OUT_BINDINGS)
        return lives

    def _make_room(self, levels: int, blocks: int, queued: int) -> None:
        """Sees to it that there are so many levels and spare blocks, and room for more rows in the queue."""
        marks = self._marks
        if levels > marks[timeline.LEVELS]:
            missing = timeline.BUCKETS * levels - len(self._heads)
            empty = np.full((missing, timeline.BUCKET_CELLS), -1, np.int64)
            self._heads = np.concatenate([self._heads, empty])
        if blocks > marks[timeline.SPARE]:
            old = len(self._links)
            new = old + max(blocks - int(marks[timeline.SPARE]), old // 2)
            self._links = _enlarged(self._links, new)
            self._rows = _enlarged(self._rows, new * timeline.BLOCK)
            timeline.chain_free(self._links, marks, old, new)
        first, end = int(marks[timeline.FIRST]), int(marks[timeline.END])
        if end + queued > len(self._queue):
            size = end - first
            self._queue = _enlarged(self._queue[first:end], size + max(queued, size // 2))
            marks[timeline.FIRST], marks[timeline.END] = 0, size
        arrays = self._queue, self._rows, self._links, self._heads
        marks[timeline.QUEUE : timeline.HEADS + 1] = [address_of(array) for array in arrays]
        marks[timeline.LEVELS] = len(self._heads) // timeline.BUCKETS
        marks[timeline.ROOM] = len(self._queue)

    def give_back(self, spare: int = 0) -> bool:
        """Returns memory that what waits and `spare` more rows do not need; whether none is left to return.

        What this costs has been taken before.
        """
        if self._room <= _LITTLE:
            return True
        # A solution that was taken back waits twice for its end, with opposite signs.
        cancels = 4 * int(self._marks[timeline.RETRACTED]) > len(self) + _FEW
        if cancels or self._room > self._enough(len(self) + spare):
            waiting = self._lives()
            self._clear()
            if cancels:
                waiting = waiting[np.argsort(waiting[:, OUT_FROM], kind="stable")]
                spans = Spans(waiting)
                left = Changes(spans.begin, spans.weight, spans.bindings).consolidated()
                waiting = waiting[: len(left)]
                waiting[:, OUT_FROM], waiting[:, OUT_WEIGHT] = left.time, left.weight
                waiting[:, OUT_BINDINGS:] = left.rows
            if len(waiting):
                self._schedule(waiting, in_order=False)
        return spare == 0 or self._room <= self._enough(len(self))

    @property
    def _room(self) -> int:
        return len(self._rows) + len(self._queue)

    def _enough(self, rows: int) -> int:
        """Twice the room that so many rows may need: each bucket in use has a block that is not full."""
        return (
            2 * (rows + timeline.BLOCK * min(rows, int(self._marks[timeline.LEVELS]) * timeline.BUCKETS))
            + _FEW
        )

    @property
    def nbytes(self) -> int:
        """The memory of rows and buckets."""
        return self._queue.nbytes + self._rows.nbytes + self._links.nbytes + self._heads.nbytes


class CountedRows:
    """A multiset of rows."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._reset(_FEW)

    def _reset(self, room: int) -> None:
        self._slots = np.full(2 * room, -1, np.int64)
        self._rows = np.empty((room, self._width), np.int64)
        self._counts = np.zeros(room, np.int64)
        self._used = self._there = 0

    def __len__(self) -> int:
        """How many different rows are there."""
        return self._there

    def add(self, weights: Ints, rows: Ints) -> Ints:
        """Adds weights; answers for each row +1 if it appeared, -1 if it vanished, else 0."""
        self._reserve(len(weights))
        changes = np.empty(len(weights), np.int64)
        rows = np.ascontiguousarray(rows)
        self._used = rowmap.add(self._slots, self._rows, self._counts, self._used, weights, rows, changes)
        self._there += sum(changes.tolist()) if len(changes) < _FEW else int(changes.sum())
        return changes

    def content(self) -> tuple[Ints, Ints]:
        """The rows that are there, and how often."""
        there = self._counts[: self._used] > 0
        return self._rows[: self._used][there], self._counts[: self._used][there]

    def state(self) -> State:
        """The rows and their multiplicities."""
        rows, counts = self.content()
        return {"rows": rows, "counts": counts}

    def restore(self, state: State) -> None:
        """Holds what a saved multiset held."""
        self._reset(_FEW)
        self.add(state["counts"], state["rows"])

    def _reserve(self, more: int) -> None:
        if self._used + more > len(self._rows):
            self._rebuild(more)

    def _rebuild(self, more: int) -> None:
        """Leaves behind the rows that are gone, and makes room for more."""
        rows, counts = self.content()
        room = _FEW
        while room < 2 * (len(rows) + more):
            room *= 2
        self._reset(room)
        self.add(counts, rows)

    def give_back(self, spare: int = 0) -> bool:
        """Returns memory that the rows and `spare` more do not need; whether none is left to return."""
        if len(self._rows) > 8 * (len(self) + spare) + _LITTLE:
            self._rebuild(0)
        return spare == 0 or len(self._rows) <= 8 * len(self) + _LITTLE

    @property
    def nbytes(self) -> int:
        """The memory of the map."""
        return self._slots.nbytes + self._rows.nbytes + self._counts.nbytes
