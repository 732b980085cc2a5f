"""Window stores: the live triples of each window, kept by kernels in arrays that this module owns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.windows import Count, Now, Range, Unbounded, Window
from thalweg.kernels import store as kernel
from thalweg.operators.state import State

_FEW_ROWS = 256
_FEW_ENTRIES = 512
_LINE = 64


def _rows(count: int, stride: int) -> NDArray[np.int64]:
    """An uninitialised ring of `count` rows, each on cache lines of its own."""
    width = stride // 8
    cells = np.empty(count * width + _LINE // 8, np.int64)
    skip = (-cells.ctypes.data) % _LINE // 8
    return cells[skip : skip + count * width].reshape(count, width)


def _table_size(keys: int) -> int:
    size = _FEW_ENTRIES
    while size < 3 * keys:
        size *= 2
    return size


class WindowStores:
    """The stores of a streamset and the descriptors by which kernels reach them."""

    def __init__(self, windows: Sequence[Window], indexes: Sequence[int]) -> None:
        """`indexes[k]` is the bit set of the index kinds that plans probe in store k."""
        self.descriptors = np.zeros((max(len(windows), 1), kernel.FIELDS), np.int64)
        self._indexes = [kinds | 1 << kernel.SPO for kinds in indexes]
        self._rings: list[NDArray[np.int64]] = []
        self._tables: list[list[NDArray[np.int64]]] = []
        for number, window in enumerate(windows):
            self._describe(number, window)
            self._set_stride(number)
            self._rings.append(self._ring(number, _FEW_ROWS))
            self._place_ring(number)
            self._tables.append([])
            for index in range(kernel.INDEXES):
                self._tables[number].append(
                    np.zeros(_FEW_ENTRIES if self._has(number, index) else 1, np.int64)
                )
                self._place_table(number, index, 0)

    def index(self, indexes: Sequence[int], now: int) -> None:
        """Keeps these indexes from now on; all rows that are there enter them."""
        for number, kinds in enumerate(indexes):
            self._indexes[number] = kinds | 1 << kernel.SPO
            self._set_stride(number)
            self._replant(number, len(self._rings[number]), now)

    def _set_stride(self, number: int) -> None:
        wide = self._indexes[number] >> kernel.S
        self.descriptors[number, kernel.STRIDE] = kernel.WIDE if wide else kernel.NARROW

    def _has(self, number: int, index: int) -> bool:
        return bool(self._indexes[number] >> index & 1)

    def _ring(self, number: int, count: int) -> NDArray[np.int64]:
        return _rows(count, int(self.descriptors[number, kernel.STRIDE]))

    def _describe(self, number: int, window: Window) -> None:
        fields = self.descriptors[number]
        fields[kernel.EVENT] = kernel.NEVER
        match window:
            case Unbounded():
                fields[kernel.KIND] = kernel.UNBOUNDED
            case Range():
                fields[kernel.KIND] = kernel.RANGE if window.step is None else kernel.STEPPED
                fields[kernel.WIDTH] = window.width
                fields[kernel.LAG] = int(window.early)
                if window.step is not None:
                    fields[kernel.STEP] = window.step
                    fields[kernel.ORIGIN] = window.origin % window.step
            case Count():
                fields[kernel.KIND] = kernel.COUNTED
            case Now():
                fields[kernel.KIND] = kernel.NOW
            case _:
                raise TypeError(f"not a window: {window!r}")
        if isinstance(window, Range | Count) and window.period is not None:
            fields[kernel.PERIOD] = window.period
            fields[kernel.PHASE] = window.origin % window.period

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

    def grow(self, number: int, status: int, now: int) -> None:
        """Makes the room that `insert` asked for by its status, at time `now`."""
        if status == kernel.FULL_ROWS:
            self._grow_ring(number, now)
        else:
            self._grow_table(number, kernel.FULL_TABLE - status)

    def _grow_ring(self, number: int, now: int) -> None:
        """Doubles a ring, or where half of it are rows that deletes have ended, leaves those behind."""
        old = self._rings[number]
        fields = self.descriptors[number]
        tail, head = int(fields[kernel.TAIL]), int(fields[kernel.HEAD])
        dead = int(kernel.dead_rows(old, tail, head, now))
        if 2 * dead < len(old):
            self._rings[number] = self._ring(number, 2 * len(old))
            kernel.relocate(old, tail, head, self._rings[number])
            self._place_ring(number)
            return
        self._replant(number, len(old), now)

    def _replant(self, number: int, size: int, now: int) -> None:
        """Moves the live rows of a store into a new ring and new indexes."""
        old = self._rings[number]
        fields = self.descriptors[number]
        tail, head = int(fields[kernel.TAIL]), int(fields[kernel.HEAD])
        self._rings[number] = self._ring(number, size)
        self._place_ring(number)
        fields[kernel.TAIL] = head
        for index in range(kernel.INDEXES):
            entries = _table_size(head - tail) if self._has(number, index) else 1
            self._tables[number][index] = np.zeros(entries, np.int64)
            self._place_table(number, index, 0)
        kernel.replant(old, tail, head, now, self.descriptors, number, self._indexes[number])

    def _grow_table(self, number: int, index: int) -> None:
        """Rebuilds an index without its dead entries, larger if need be."""
        table = self._tables[number][index]
        tail = self.descriptors[number, kernel.TAIL]
        fresh = np.zeros(_table_size(int(kernel.live_entries(table, tail))), np.int64)
        used = kernel.rebuild(index, table, self._rings[number], tail, fresh)
        self._tables[number][index] = fresh
        self._place_table(number, index, used)

    def evict(self, now: int) -> None:
        """Lets go of the rows that ended at or before `now`."""
        kernel.evict_all(self.descriptors, now)

    def live_rows(self, number: int, most: int | None = None) -> NDArray[np.int64]:
        """A copy of the rows of one store, oldest first; or about `most` of them, evenly spread."""
        ring = self._rings[number]
        tail, head = self.descriptors[number, [kernel.TAIL, kernel.HEAD]].tolist()
        stride = 1 if most is None else max(1, (head - tail) // most)
        return ring[np.arange(tail, head, stride) & (len(ring) - 1)]

    def state(self) -> State:
        """The rows of each store, without links: indexes are made anew when they are restored."""
        return {
            "rows": [self.live_rows(number)[:, : kernel.ROW_TIME + 1] for number in range(len(self))],
            "events": self.descriptors[:, kernel.EVENT],
        }

    def restore(self, state: State) -> None:
        """Holds what saved stores held."""
        for number, rows in enumerate(state["rows"]):
            size = max(_FEW_ROWS, 1 << (2 * len(rows)).bit_length())
            ring = np.zeros((size, rows.shape[1]), np.int64)
            ring[: len(rows)] = rows
            self._rings[number] = ring
            self.descriptors[number, [kernel.TAIL, kernel.HEAD]] = 0, len(rows)
            self._replant(number, size, kernel.NEVER)
        self.descriptors[:, kernel.EVENT] = state["events"]

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
