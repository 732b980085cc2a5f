"""Spans and changes: the two forms in which solutions go from the match kernel to a view.

A span is a solution with a weight and a life `[begin, end)`, which is known when it is found. A change is a row with a
weight at an instant. Operators that need to see what leaves work on changes; the timeline turns spans into changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import rowmap
from thalweg.kernels.layout import (
    OUT_BINDINGS,
    OUT_EVENT,
    OUT_FROM,
    OUT_GRAPH,
    OUT_TO,
    OUT_UNIT,
    OUT_WEIGHT,
)

Ints = NDArray[np.int64]
Key = slice | NDArray[np.bool_] | NDArray[np.intp]


@dataclass(slots=True)
class Spans:
    """Solutions as the match kernel writes them, a row of cells each; the columns are views of the cells."""

    cells: Ints

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, key: Key) -> Spans:
        return Spans(self.cells[key])

    @property
    def unit(self) -> Ints:
        """The match unit that a solution belongs to."""
        return self.cells[:, OUT_UNIT]

    @property
    def event(self) -> Ints:
        """The number of the event by which a solution was found; [NOW] solutions are of one event."""
        return self.cells[:, OUT_EVENT]

    @property
    def weight(self) -> Ints:
        """1, or -1 where a delete takes a solution back for the rest of its life."""
        return self.cells[:, OUT_WEIGHT]

    @property
    def begin(self) -> Ints:
        """The first instant of a solution's life."""
        return self.cells[:, OUT_FROM]

    @property
    def end(self) -> Ints:
        """The instant after a solution's life."""
        return self.cells[:, OUT_TO]

    @property
    def graph(self) -> Ints:
        """The graph of the event."""
        return self.cells[:, OUT_GRAPH]

    @property
    def bindings(self) -> Ints:
        """The ids of the terms, a column for each variable that the unit shows; further columns mean nothing."""
        return self.cells[:, OUT_BINDINGS:]


@dataclass(slots=True)
class Changes:
    """Signed rows in time order: when, how often more (or, below zero, less), and the ids of the row."""

    time: Ints
    weight: Ints
    rows: Ints

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, key: Key) -> Changes:
        return Changes(self.time[key], self.weight[key], self.rows[key])

    @classmethod
    def empty(cls, width: int) -> Changes:
        """No changes of rows with so many cells."""
        none = np.empty(0, np.int64)
        return cls(none, none, np.empty((0, width), np.int64))

    @classmethod
    def concat(cls, parts: list[Changes], width: int) -> Changes:
        """Several as one, one after the other."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty(width)
        return cls(
            np.concatenate([part.time for part in parts]),
            np.concatenate([part.weight for part in parts]),
            np.concatenate([part.rows for part in parts]),
        )

    def consolidated(self, *, sums: bool = False) -> Changes:
        """The same changes, netted within each instant; with `sums`, equal rows of an instant are one."""
        weight, size = self.weight, len(self.weight)
        one_sign = np.count_nonzero(weight > 0) == size or np.count_nonzero(weight < 0) == size
        if size <= 1 or (one_sign and not sums):
            return self
        rows = np.ascontiguousarray(self.rows)
        scratch = 4
        while scratch < 2 * size:
            scratch *= 2
        out = Changes(np.empty(size, np.int64), np.empty(size, np.int64), np.empty_like(rows))
        left = rowmap.consolidate(
            self.time,
            weight,
            rows,
            np.empty(scratch, np.int64),
            np.empty_like(rows),
            np.empty(size, np.int64),
            sums,
            out.time,
            out.weight,
            out.rows,
        )
        return out[:left]
