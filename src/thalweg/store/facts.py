"""Rows of a store's history as columns, and what of them is the content at an instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thalweg.rdf.arena import Arena, Ids
from thalweg.rdf.events import Rows

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Facts:
    """Triples that were inserted (op 1) or deleted (op -1) on a stream at a time; ids are those of an arena."""

    stream: Ids
    time: Ids
    op: Ids
    s: Ids
    p: Ids
    o: Ids

    def __len__(self) -> int:
        return len(self.time)

    def __getitem__(self, key: Mask | Ids | slice) -> Facts:
        return Facts(*(column[key] for column in self.columns))

    @property
    def columns(self) -> tuple[Ids, Ids, Ids, Ids, Ids, Ids]:
        """All columns."""
        return self.stream, self.time, self.op, self.s, self.p, self.o

    @classmethod
    def of(cls, stream: int, rows: Rows) -> Facts:
        """The rows of one stream, whose name has this id."""
        return cls(np.full(len(rows), stream, np.int64), rows.time, rows.op, rows.s, rows.p, rows.o)

    @classmethod
    def concat(cls, parts: Sequence[Facts]) -> Facts:
        """Several as one."""
        if not parts:
            return cls(*(np.empty(0, np.int64) for _ in range(6)))
        return cls(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True)))

    def latest(self) -> Facts:
        """For each triple of each stream its latest row; at one instant deletes come before inserts."""
        order = np.lexsort((self.op, self.time, self.o, self.p, self.s, self.stream))
        rows = self[order]
        last = np.ones(len(rows), np.bool_)
        same = np.ones(max(len(rows) - 1, 0), np.bool_)
        for column in (rows.stream, rows.s, rows.p, rows.o):
            same &= column[1:] == column[:-1]
        last[:-1] = ~same
        return rows[last]

    def content(self, start: int | None, end: int | None) -> Facts:
        """What is there at the instant `end` of what came after `start`."""
        seen = np.ones(len(self), np.bool_)
        if start is not None:
            seen &= self.time > start
        if end is not None:
            seen &= self.time <= end
        rows = self if seen.all() else self[seen]
        if not (rows.op < 0).any():  # then it does not matter which row of a triple is kept
            return rows
        rows = rows.latest()
        return rows[rows.op > 0]

    def lines(self, arena: Arena, *, named: bool, default: bool) -> bytes:
        """N-Quads: each triple in the graph of its stream, in the default graph, or in both."""
        s, p, o = (arena.texts(column) for column in (self.s, self.p, self.o))
        lines: list[str] = []
        if named:
            g = arena.texts(self.stream)
            lines += [f"{a} {b} {c} {d} .\n" for a, b, c, d in zip(s, p, o, g, strict=True)]
        if default:
            lines += [f"{a} {b} {c} .\n" for a, b, c in zip(s, p, o, strict=True)]
        return "".join(lines).encode()
