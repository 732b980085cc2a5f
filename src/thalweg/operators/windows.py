"""Window stores: the live triples of each window, kept by kernels in arrays that this module owns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.nodes import Now, Range, Unbounded, Window
from thalweg.kernels import store as kernel

_FEW_ROWS = 256
_FEW_ENTRIES = 512
_LINE = 64


def _rows(count: int) -> NDArray[np.int64]:
    """An uninitialised ring of `count` rows, each on a cache line of its own."""
    cells = np.empty(count * kernel.ROW_CELLS + _LINE // 8, np.int64)
    skip = (-cells.ctypes.data) % _LINE // 8
    return cells[skip : skip + count * kernel.ROW_CELLS].reshape(count, kernel.ROW_CELLS)


class WindowStores:
    """The stores of a streamset and the descriptors by which kernels reach them."""

    def __init__(self, windows: Sequence[Window], indexes: Sequence[int]) -> None:
        """`indexes[k]` is the bit set of the index kinds that plans probe in store k."""
        count = len(windows)
        self.descriptors = np.zeros((max(count, 1), kernel.FIELDS), np.int64)
        self._rings: list[NDArray[np.int64]] = []
        self._tables: list[list[NDArray[np.int64]]] = []
        for number, window in enumerate(windows):
            self._describe(number, window)
            self._rings.append(_rows(_FEW_ROWS))
            self._place_ring(number)
            self._tables.append([])
            for index in range(kernel.INDEXES):
                size = _FEW_ENTRIES if (indexes[number] | 1) >> index & 1 else 1
                self._tables[number].append(np.zeros(size, np.int64))
                self._place_table(number, index, 0)

    def _describe(self, number: int, window: Window) -> None:
        fields = self.descriptors[number]
        fields[kernel.EVENT] = -1
        match window:
            case Unbounded():
                fields[kernel.KIND] = kernel.UNBOUNDED
            case Range(width, None):
                fields[kernel.KIND] = kernel.RANGE
                fields[kernel.WIDTH] = width
            case Range(width, step, origin):
                fields[kernel.KIND] = kernel.STEPPED
                fields[kernel.WIDTH] = width
                fields[kernel.STEP] = step
                fields[kernel.ORIGIN] = origin
            case Now():
                fields[kernel.KIND] = kernel.NOW
            case _:
                raise TypeError(f"not a window: {window!r}")

    def _place_ring(self, number: int) -> None:
        ring = self._rings[number]
        self.descriptors[number, kernel.ROWS] = ring.ctypes.data
        self.descriptors[number, kernel.MASK] = len(ring) - 1

    def _place_table(self, number: int, index: int, used: int) -> None:
        table = self._tables[number][index]
        base = kernel.TABLES + 3 * index
        self.descriptors[number, base] = table.ctypes.data
        self.descriptors[number, base + 1] = len(table) - 1
        self.descriptors[number, base + 2] = used

    def grow(self, number: int, status: int) -> None:
        """Makes the room that `insert` asked for by its status."""
        fields = self.descriptors[number]
        if status == kernel.FULL_ROWS:
            old = self._rings[number]
            self._rings[number] = _rows(2 * len(old))
            kernel.relocate(
                old, len(old) - 1, fields[kernel.TAIL], fields[kernel.HEAD], self._rings[number]
            )
            self._place_ring(number)
            return
        index = kernel.FULL_TABLE - status
        table = self._tables[number][index]
        live = int(kernel.live_entries(table, fields[kernel.TAIL]))
        size = _FEW_ENTRIES
        while size < 3 * live:
            size *= 2
        fresh = np.zeros(size, np.int64)
        used = kernel.rebuild(index, table, self._rings[number], fields[kernel.TAIL], fresh)
        self._tables[number][index] = fresh
        self._place_table(number, index, used)

    def evict(self, now: int) -> None:
        """Lets go of the rows that ended at or before `now`."""
        kernel.evict_all(self.descriptors, now)

    def live_rows(self, number: int) -> NDArray[np.int64]:
        """A copy of the live rows of one store, oldest first."""
        ring = self._rings[number]
        tail, head = self.descriptors[number, [kernel.TAIL, kernel.HEAD]]
        return ring[np.arange(tail, head) & (len(ring) - 1)]

    def __len__(self) -> int:
        return len(self._rings)

    @property
    def live(self) -> int:
        """How many rows are alive in all stores."""
        return int((self.descriptors[:, kernel.HEAD] - self.descriptors[:, kernel.TAIL]).sum())

    @property
    def nbytes(self) -> int:
        """The memory of rings and indexes."""
        return sum(ring.nbytes for ring in self._rings) + sum(
            table.nbytes for tables in self._tables for table in tables
        )
