"""Timeline and counted rows: the two states that turn solutions with a lifetime into signed rows in time order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import rowmap, timeline
from thalweg.kernels.layout import OUT_BINDINGS, OUT_FROM, OUT_WEIGHT
from thalweg.kernels.store import FOREVER
from thalweg.operators.state import State

Ints = NDArray[np.int64]
_FEW = 64
_PATIENCE = 64
"""Times that a timeline is asked for what is due before it gives back memory that it did not need meanwhile."""


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
        self._most = self._pops = 0

    def __len__(self) -> int:
        return int(self._marks[timeline.WAITING])

    @property
    def due(self) -> int | None:
        """The earliest instant that waits."""
        return int(self._marks[timeline.DUE]) if self._marks[timeline.WAITING] else None

    def schedule(self, solutions: Ints) -> None:
        """Adds the beginning and the end of each solution's life."""
        self._schedule(solutions, in_order=True)

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
        self._most = max(self._most, len(self))

    def pop(self, until: int) -> tuple[Ints, Ints, Ints]:
        """Takes what is due at or before `until`: times in order, weights, rows."""
        parts: list[tuple[Ints, Ints, Ints]] = []
        room = 256
        while self._marks[timeline.WAITING] and self._marks[timeline.DUE] <= until:
            room = max(min(4 * room, len(self)), timeline.BLOCK)
            times, weights = np.empty(room, np.int64), np.empty(room, np.int64)
            rows = np.empty((room, self._width), np.int64)
            taken, wanted = timeline.pop(self._marks, until, times, weights, rows)
            if wanted:
                self._make_room(0, wanted, 0)
            parts.append((times[:taken], weights[:taken], rows[:taken]))
        self._give_back()
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.empty(0, np.int64)
            return none, none, np.empty((0, self._width), np.int64)
        times, weights, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
        return times, weights, rows

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
        marks[timeline.QUEUE : timeline.HEADS + 1] = [array.ctypes.data for array in arrays]
        marks[timeline.LEVELS] = len(self._heads) // timeline.BUCKETS
        marks[timeline.ROOM] = len(self._queue)

    def _give_back(self) -> None:
        """Returns memory that has not been needed for a while."""
        self._pops += 1
        if self._pops < _PATIENCE:
            return
        if len(self._rows) + len(self._queue) > max(_FEW, 4 * self._most):
            waiting = self._lives()
            self._clear()
            self._schedule(waiting, in_order=False)
        self._most, self._pops = len(self), 0

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
        self._used = 0

    def add(self, weights: Ints, rows: Ints) -> Ints:
        """Adds weights; answers for each row +1 if it appeared, -1 if it vanished, else 0."""
        self._reserve(len(weights))
        changes = np.empty(len(weights), np.int64)
        rows = np.ascontiguousarray(rows)
        self._used = rowmap.add(self._slots, self._rows, self._counts, self._used, weights, rows, changes)
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
        if self._used + more <= len(self._rows):
            return
        rows, counts = self.content()
        room = _FEW
        while room < 2 * (len(rows) + more):
            room *= 2
        self._reset(room)
        changes = np.empty(len(rows), np.int64)
        self._used = rowmap.add(
            self._slots, self._rows, self._counts, 0, counts, np.ascontiguousarray(rows), changes
        )

    @property
    def nbytes(self) -> int:
        """The memory of the map."""
        return self._slots.nbytes + self._rows.nbytes + self._counts.nbytes


def consolidate(times: Ints, weights: Ints, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Signed rows in time order, netted within each instant."""
    if not len(times) or (weights > 0).all() or (weights < 0).all():
        return times, weights, rows
    size, rows = len(times), np.ascontiguousarray(rows)
    scratch = 4
    while scratch < 2 * size:
        scratch *= 2
    out = np.empty(size, np.int64), np.empty(size, np.int64), np.empty_like(rows)
    left = rowmap.consolidate(
        times,
        weights,
        rows,
        np.empty(scratch, np.int64),
        np.empty_like(rows),
        np.empty(size, np.int64),
        *out,
    )
    return out[0][:left], out[1][:left], out[2][:left]
