"""Retention: the rows of a stream that are kept for queries which begin with the content of the stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels.times import NO_TIME
from thalweg.operators.state import State
from thalweg.rdf.events import Rows

Ints = NDArray[np.int64]


class Retained:
    """Rows in the order in which they came, for a time or for ever.

    They are in parts, each at most half as large as the one before: a row is copied a few times, whatever the batches.
    """

    def __init__(self, keep: int | None) -> None:
        """`keep` is how long before the watermark rows are kept, in microseconds; None: for ever."""
        self.keep = keep
        self._parts: list[tuple[Rows, int]] = []  # with a time up to which half of the part is
        self._limit = NO_TIME

    def add(self, rows: Rows, watermark: int) -> None:
        """Takes rows, and lets go of those that are too old at a watermark."""
        if len(rows):
            while self._parts and len(self._parts[-1][0]) <= 2 * len(rows):
                rows = Rows.concat([self._parts.pop()[0], rows])
            self._parts.append(_with_middle(rows))
        if self.keep is None or watermark == NO_TIME:
            return
        self._limit = max(self._limit, watermark - self.keep)
        if any(middle <= self._limit for _, middle in self._parts):
            left = [self._current(rows) if middle <= self._limit else rows for rows, middle in self._parts]
            self._parts = [_with_middle(rows) for rows in left if len(rows)]

    def rows(self) -> list[Rows]:
        """The rows that are kept."""
        return [self._current(rows) for rows, _ in self._parts]

    def _current(self, rows: Rows) -> Rows:
        late = rows.time > self._limit
        return rows if late.all() else rows[late]

    def live_ids(self) -> Iterator[Ints]:
        """The term ids of the rows."""
        for rows, _ in self._parts:
            yield from rows.ids

    def __len__(self) -> int:
        return sum(len(rows) for rows, _ in self._parts)

    @property
    def nbytes(self) -> int:
        """The memory of the rows."""
        return sum(column.nbytes for rows, _ in self._parts for column in rows.columns)

    def state(self) -> State:
        """The rows, and how long they are kept."""
        return {"keep": self.keep, "limit": self._limit, "parts": [rows.columns for rows in self.rows()]}

    @classmethod
    def restored(cls, state: State) -> Retained:
        """Keeps what a saved one kept."""
        retained = cls(state["keep"])
        retained._limit = state["limit"]
        retained._parts = [_with_middle(Rows(*columns)) for columns in state["parts"] if len(columns[0])]
        return retained


def triples_of(parts: list[Rows]) -> Ints:
    """The triples that rows leave, each once: by time, and at one time deletes come before inserts."""
    rows = Rows.concat(parts)
    if not len(rows):
        return np.empty((0, 3), np.int64)
    order = np.lexsort((rows.op, rows.time, rows.o, rows.p, rows.s))
    s, p, o, op = (column[order] for column in (rows.s, rows.p, rows.o, rows.op))
    last = np.ones(len(order), np.bool_)
    last[:-1] = (s[1:] != s[:-1]) | (p[1:] != p[:-1]) | (o[1:] != o[:-1])
    kept = last & (op > 0) & (s != 0)
    return np.stack([s[kept], p[kept], o[kept]], axis=1)


def _with_middle(rows: Rows) -> tuple[Rows, int]:
    middle = len(rows) // 2
    return rows, int(np.partition(rows.time, middle)[middle])
