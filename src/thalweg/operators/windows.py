"""Window stores: the live triples of each window, kept by kernels in arrays that this module owns."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.windows import Arrivals, Count, Entailed, Now, Range, Static, Unbounded, Window
from thalweg.kernels import store as kernel
from thalweg.kernels.bases import fill_filter, rehide
from thalweg.kernels.checking import address_of
from thalweg.kernels.key_filter import LINE_WORDS
from thalweg.operators.state import State

_FEW_ROWS = 256
_LINE = 64
_ENTRIES_A_LINE = 80  # of indexes: 32 keys when they are made, and 53 when they are full
_NO_ROWS = np.empty((0, kernel.ROW_CELLS), np.int64)
_NO_ENTRIES = np.zeros(1, np.int64)  # the index that a store does not have: every probe fails


def _rows(count: int, stride: int) -> NDArray[np.int64]:
    """An uninitialised ring of `count` rows, the first of them at the start of a cache line."""
    width = stride // 8
    cells = np.empty(count * width + _LINE // 8, np.int64)
    skip = (-cells.ctypes.data) % _LINE // 8
    return cells[skip : skip + count * width].reshape(count, width)


def _ring_size(rows: int) -> int:
    return rows + rows // 3 + _FEW_ROWS


def _table_size(keys: int) -> int:
    return 5 * keys // 2 + kernel.FEW_ENTRIES


def _in_order(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows in the order in which they end, or by count were last brought: that of a ring without renewed rows."""
    end = rows[:, kernel.ROW_TO]
    if (end[1:] > end[:-1]).all():
        return rows
    return rows[np.lexsort((rows[:, kernel.ROW_TIME], end))]


def _cells(index: int) -> int:
    return kernel.TABLES + kernel.INDEX_CELLS * index


class WindowStores:
    """The stores of a streamset and the descriptors by which kernels reach them."""

    def __init__(self, windows: Sequence[Window], indexes: Sequence[int], bases: Sequence[int] = ()) -> None:
        """`indexes[k]` is the bit set of the index kinds that plans probe in store k, `bases[k]` its base, or -1."""
        self.descriptors = np.zeros((max(len(windows), 1), kernel.FIELDS), np.int64)
        address_of(self.descriptors)  # kernels are called with the addresses of its rows
        self.has_generations = False
        """Whether rows serve ranges of generations; if not, all rows serve all units."""
        self._indexes: list[int] = []
        self._rings: list[NDArray[np.int64]] = []
        self._tables: list[list[NDArray[np.int64]]] = []  # of the indexes, then the filter of their keys
        for window, kinds in zip(windows, indexes, strict=True):
            self._add(window, kinds)
        self._set_bases(bases)

    def _set_bases(self, bases: Sequence[int]) -> None:
        """Makes stores one set with others, of static data; -1: with none."""
        self.descriptors[: len(bases), kernel.BASE] = np.array(bases, np.int64) + 1
        self._rehide()

    def _rehide(self) -> None:
        """Hides what bases have, in all stores."""
        for number in np.flatnonzero(self.descriptors[:, kernel.BASE]).tolist():
            rehide(self.descriptors, number)

    def _add(self, window: Window, kinds: int) -> None:
        """Makes another store, without rows; its descriptor is there."""
        number = len(self._rings)
        self._describe(number, window)
        self._indexes.append(kinds | 1 << kernel.SPO)
        self._rings.append(_rows(0, _LINE))
        self._tables.append([])
        self._plant(number, _NO_ROWS, kernel.NEVER)

    def index(self, indexes: Sequence[int], now: int) -> None:
        """Keeps these indexes from now on; all rows that are there enter them."""
        for number, kinds in enumerate(indexes):
            self._reindex(number, kinds, now)

    def _reindex(self, number: int, kinds: int, now: int) -> None:
        rows = self._saved_rows(number)
        self._indexes[number] = kinds | 1 << kernel.SPO
        self._plant(number, rows, now)

    def follow(
        self,
        windows: Sequence[Window],
        places: Sequence[int],
        indexes: Sequence[int],
        bases: Sequence[int],
        now: int,
        anew: Set[int],
    ) -> None:
        """Has the stores of another program: `places[k]` is which of the present ones store k was, or -1 for a new one.

        Stores get indexes that they lack, and all rows enter them. In those of `anew`, all rows enter all indexes.
        """
        descriptors, rings, tables, kept = self.descriptors, self._rings, self._tables, self._indexes
        self.descriptors = np.zeros((max(len(windows), 1), kernel.FIELDS), np.int64)
        address_of(self.descriptors)
        descriptors[:, kernel.BASE] = 0  # until all stores have their places
        self._rings, self._tables, self._indexes = [], [], []
        for number, (window, place, kinds) in enumerate(zip(windows, places, indexes, strict=True)):
            if place < 0:
                self._add(window, kinds)
                continue
            self.descriptors[number] = descriptors[place]
            self._rings.append(rings[place])
            self._tables.append(tables[place])
            self._indexes.append(kept[place])
            if number in anew or kinds & ~self._indexes[number]:
                self._reindex(number, kinds | self._indexes[number], now)
        self._set_bases(bases)

    def set_generations(self, use: bool) -> None:
        """Begins or ends to distinguish generations. The rows that are there when that begins are of generation 0."""
        if use == self.has_generations:
            return
        rows = [self._saved_rows(number) for number in range(len(self))]
        self.has_generations = use
        for number, kept in enumerate(rows):
            kept[:, kernel.ROW_LOW :] = 0
            self._plant(number, kept, kernel.NEVER)
        self._rehide()

    def all_serve(self, number: int, generation: int, now: int) -> bool:
        """Whether every row of a store that ends after `now` serves all generations up to this."""
        rows = self._saved_rows(number)
        rows = rows[rows[:, kernel.ROW_TO] > now]
        return bool(((rows[:, kernel.ROW_LOW] == 0) & (rows[:, kernel.ROW_HIGH] >= generation)).all())

    def content(self, number: int, at: int, generation: int) -> NDArray[np.int64]:
        """The triples of one store that are there at an instant for the queries of a generation."""
        rows = self._saved_rows(number)
        there = (rows[:, kernel.ROW_FROM] <= at) & (at < rows[:, kernel.ROW_TO])
        if self.has_generations:
            there &= (rows[:, kernel.ROW_LOW] <= generation) & (generation <= rows[:, kernel.ROW_HIGH])
        return rows[there, : kernel.ROW_FROM]

    def _saved_rows(self, number: int) -> NDArray[np.int64]:
        """The rows of one store, oldest first, without links: the triple, its interval and time, its generations."""
        kept = np.zeros((self._live(number), kernel.ROW_CELLS), np.int64)
        rows = self.live_rows(number)
        kept[:, : kernel.ROW_LOW] = rows[:, : kernel.ROW_LOW]
        if self.has_generations:
            cell = int(self.descriptors[number, kernel.GENERATIONS])
            generations = rows.view(np.uint32)[:, cell : cell + 2].astype(np.int64)
            kept[:, kernel.ROW_LOW] = generations[:, 0] >> kernel.INDEXES
            kept[:, kernel.ROW_HIGH] = generations[:, 1]
        return kept

    def _plant(self, number: int, rows: NDArray[np.int64], now: int) -> None:
        """Gives a store a new ring and new indexes, with those of some rows that end after `now`."""
        fields = self.descriptors[number]
        rows = _in_order(rows[rows[:, kernel.ROW_TO] > now])
        kinds = self._kinds(number)
        links = kernel.FIRST_LINK + len(kinds)
        fields[kernel.GENERATIONS] = links if self.has_generations else 0
        fields[kernel.STRIDE] = max(_LINE, 8 * -(-(links + 2 * self.has_generations) // 2))
        fields[kernel.TAIL] = fields[kernel.HEAD]
        fields[kernel.HAS], fields[kernel.ENDED] = self._indexes[number], 0
        self._place_ring(number, _rows(_ring_size(len(rows)), int(fields[kernel.STRIDE])))
        self._tables[number] = [_NO_ENTRIES] * (kernel.INDEXES + 1)
        for index in range(kernel.INDEXES):
            self._place_table(number, index, _NO_ENTRIES, 0)
        for rank, index in enumerate(kinds):
            fields[_cells(index) + kernel.LINK] = kernel.FIRST_LINK + rank
            self._place_table(number, index, np.zeros(_table_size(len(rows)), np.int64), 0)
        self._place_filter(number)
        kernel.replant(rows, self.descriptors, number, self._indexes[number])
        for index in kinds:
            self._rebuild(number, index)
        fields[kernel.SWEEP] = fields[kernel.HEAD] + kernel.SWEEP_EVERY
        if fields[kernel.BASE]:
            rehide(self.descriptors, number)

    def _kinds(self, number: int) -> list[int]:
        """The index kinds that a store has."""
        return [index for index in range(kernel.INDEXES) if self._indexes[number] >> index & 1]

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
            case Static():
                fields[kernel.KIND] = kernel.STATIC
            case Now():
                fields[kernel.KIND] = kernel.NOW
            case Arrivals():
                self._describe(number, window.window)
            case Entailed():
                self._describe(number, window.window)
                if isinstance(window.window, Count):  # its feed says what leaves
                    fields[kernel.KIND] = kernel.UNBOUNDED
            case _:
                raise TypeError(f"not a window: {window!r}")
        if isinstance(window, Range | Count) and window.period is not None:
            fields[kernel.PERIOD] = window.period
            fields[kernel.PHASE] = window.origin % window.period

    def _place_ring(self, number: int, ring: NDArray[np.int64]) -> None:
        """Makes an array, which has the rows from TAIL on at its start, the ring of a store."""
        self._rings[number] = ring
        fields = self.descriptors[number]
        start = address_of(ring)
        fields[kernel.ROWS] = start - fields[kernel.TAIL] * fields[kernel.STRIDE]
        fields[kernel.END] = start + ring.nbytes
        fields[kernel.SPAN] = ring.nbytes

    def _place_table(self, number: int, index: int, table: NDArray[np.int64], taken: int) -> None:
        self._tables[number][index] = table
        cells = self.descriptors[number, _cells(index) :]
        cells[kernel.TABLE], cells[kernel.SIZE], cells[kernel.TAKEN] = address_of(table), len(table), taken

    def _place_filter(self, number: int) -> None:
        """Gives a store of static data a filter of its keys, of a size that suits its indexes."""
        fields = self.descriptors[number]
        if fields[kernel.KIND] != kernel.STATIC:
            return
        entries = sum(len(self._tables[number][index]) for index in self._kinds(number))
        lines = entries // _ENTRIES_A_LINE + 1
        words = _rows(lines, 8 * LINE_WORDS)
        words[:] = 0
        self._tables[number][kernel.INDEXES] = words
        fields[kernel.FILTER], fields[kernel.FILTER_LINES] = address_of(words), lines
        fields[kernel.PREDICATES] = 0
        fill_filter(kernel.descriptor(self.descriptors, number))

    def grow(self, number: int, status: int, now: int) -> None:
        """Makes the room that `insert` needs by its status, at time `now`."""
        if status == kernel.FULL_ROWS:
            self._grow_ring(number, now)
        elif status == kernel.SLACK_ROWS:
            self._fit(number)
        else:
            self._rebuild(number, kernel.UNFIT_TABLE - status)
            if kernel.UNFIT_TABLE - status == kernel.SPO:  # it has most keys
                self._place_filter(number)

    def settle(self, now: int) -> None:
        """Lets go of the rows that ended at or before `now`, and of memory that the others do not need."""
        while (number := int(kernel.settle(self.descriptors, now))) >= 0:
            if self.descriptors[number, kernel.ENDED] and self._cleared(number, now):
                continue
            self.descriptors[number, kernel.ENDED] = 0
            self._fit(number)

    def keep(self, number: int, predicates: NDArray[np.int64] | None) -> None:
        """Lets go of the rows of a store that have other predicates than these."""
        if predicates is not None:
            rows = self._saved_rows(number)
            kept = np.isin(rows[:, kernel.ROW_P], predicates)
            if not kept.all():
                self._plant(number, rows[kept], kernel.NEVER)

    def _cleared(self, number: int, now: int) -> bool:
        """Leaves behind the rows that deletes have ended, where these are half of a store."""
        parts = self._parts(number)
        ended = sum(np.count_nonzero(part[:, kernel.ROW_TO] <= now) for part in parts)
        if not ended or 2 * ended < self._live(number):
            return False
        self._plant(number, self._saved_rows(number), now)
        return True

    def _fit(self, number: int) -> None:
        """Gives a ring and its indexes the sizes that suit what is alive."""
        size = _ring_size(self._live(number))
        if size < len(self._rings[number]):
            self._resize_ring(number, size)
            for index in self._kinds(number):
                self._rebuild(number, index)

    def _grow_ring(self, number: int, now: int) -> None:
        """Makes a full ring larger, unless half of it are rows that deletes have ended."""
        if not self._cleared(number, now):
            # By a third: twice as large would fill a little quicker, at up to 60 bytes more for each row.
            self._resize_ring(number, _ring_size(len(self._rings[number])))

    def _resize_ring(self, number: int, size: int) -> None:
        ring = _rows(size, int(self.descriptors[number, kernel.STRIDE]))
        done = 0
        for part in self._parts(number):
            ring[done : done + len(part)] = part
            done += len(part)
        self._place_ring(number, ring)

    def _rebuild(self, number: int, index: int) -> None:
        """Gives an index the size that suits its live entries."""
        desc = kernel.descriptor(self.descriptors, number)
        taken = kernel.live_entries(desc, index)
        fresh = np.zeros(_table_size(taken), np.int64)
        kernel.rebuild(desc, index, fresh)
        self._place_table(number, index, fresh, taken)

    def live_rows(self, number: int, most: int | None = None) -> NDArray[np.int64]:
        """A copy of the rows of one store, oldest first; or about `most` of them, evenly spread."""
        step = 1 if most is None else max(1, self._live(number) // most)
        first, second = self._parts(number)
        return np.concatenate([first[::step], second[-len(first) % step :: step]])

    def _parts(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The rows of one store, oldest first: those up to the end of the ring and those from its start on."""
        ring = self._rings[number]
        fields = self.descriptors[number]
        first = fields[kernel.ROWS] + fields[kernel.TAIL] * fields[kernel.STRIDE] - ring.ctypes.data
        start = int(first // fields[kernel.STRIDE])
        end = start + self._live(number)
        return ring[start:end], ring[: max(0, end - len(ring))]

    def _live(self, number: int) -> int:
        return int(self.descriptors[number, kernel.HEAD] - self.descriptors[number, kernel.TAIL])

    def state(self) -> State:
        """The rows of each store, without links: indexes are made anew when they are restored."""
        return {
            "rows": [self._saved_rows(number) for number in range(len(self))],
            "has_generations": self.has_generations,
            "events": self.descriptors[:, kernel.EVENT],
        }

    def restore(self, state: State, places: Sequence[int]) -> None:
        """Holds what saved stores held; `places[k]` is the number that store k had there."""
        self.has_generations = state["has_generations"]
        for number, place in enumerate(places):
            self._plant(number, state["rows"][place], kernel.NEVER)
            self.descriptors[number, kernel.EVENT] = state["events"][place]
        self._rehide()

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
