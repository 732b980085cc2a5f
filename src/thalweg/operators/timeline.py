"""Timeline and counted rows: the two states that turn solutions with a lifetime into signed rows in time order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import rowmap, timeline
from thalweg.kernels.match import OUT_BINDINGS
from thalweg.operators.state import State

Ints = NDArray[np.int64]
_FEW = 64


def _enlarged(array: Ints, size: int) -> Ints:
    grown = np.empty((size, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


class Timeline:
    """Signed rows that wait for their instant."""

    def __init__(self, width: int) -> None:
        self._heap = np.empty((_FEW, 2), np.int64)
        self._rows = np.empty((_FEW, 1 + width), np.int64)
        self._size = 0
        self._free = timeline.chain_free(self._rows, 0, _FEW, -1)
        self._width = width

    def __len__(self) -> int:
        return self._size

    @property
    def due(self) -> int | None:
        """The earliest instant that waits."""
        return int(self._heap[0, 0]) if self._size else None

    def schedule(self, solutions: Ints) -> None:
        """Adds the beginning and the end of each solution's life."""
        self._reserve(self._size + 2 * len(solutions))
        self._size, self._free = timeline.schedule(
            self._heap, self._size, self._rows, self._free, solutions, OUT_BINDINGS
        )

    def pop(self, until: int) -> tuple[Ints, Ints, Ints]:
        """Takes what is due at or before `until`: times in order, weights, rows."""
        parts: list[tuple[Ints, Ints, Ints]] = []
        room = 256
        while self._size and self._heap[0, 0] <= until:
            room = min(max(room, 256) * 4, max(self._size, 1))
            times, weights = np.empty(room, np.int64), np.empty(room, np.int64)
            rows = np.empty((room, self._width), np.int64)
            self._size, self._free, taken = timeline.pop(
                self._heap, self._size, self._rows, self._free, until, times, weights, rows
            )
            parts.append((times[:taken], weights[:taken], rows[:taken]))
        if len(parts) == 1:
            return parts[0]
        if not parts:
            none = np.empty(0, np.int64)
            return none, none, np.empty((0, self._width), np.int64)
        times, weights, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
        return times, weights, rows

    def rows(self) -> Ints:
        """The bindings of everything that waits."""
        return self._rows[self._heap[: self._size, 1], 1:]

    def state(self) -> State:
        """What waits: times, and weights with bindings."""
        return {"times": self._heap[: self._size, 0], "rows": self._rows[self._heap[: self._size, 1]]}

    def restore(self, state: State) -> None:
        """Waits for what a saved timeline waited for."""
        order = np.argsort(state["times"], kind="stable")
        self.__init__(self._width)  # type: ignore[misc]
        self._reserve(len(order))
        # In order of time the entries are a heap, and slot k holds entry k.
        self._heap[: len(order), 0] = state["times"][order]
        self._heap[: len(order), 1] = np.arange(len(order))
        self._rows[: len(order)] = state["rows"][order]
        self._size = len(order)
        self._free = timeline.chain_free(self._rows, len(order), len(self._rows), -1)

    def _reserve(self, size: int) -> None:
        old = len(self._heap)
        if size <= old:
            return
        new = max(2 * old, 1 << (size - 1).bit_length())
        self._heap = _enlarged(self._heap, new)
        self._rows = _enlarged(self._rows, new)
        self._free = timeline.chain_free(self._rows, old, new, self._free)

    @property
    def nbytes(self) -> int:
        """The memory of heap and rows."""
        return self._heap.nbytes + self._rows.nbytes


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
    size = len(times)
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
