"""Ranks: the rows of an answer in the order that its query asks for, each with its place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.kernels import number_texts
from thalweg.kernels.bits import SLACK
from thalweg.operators.ordering import OrderedRows
from thalweg.plan.compile import plan_of
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]


class Ranking:
    """How rows of a ranked query are put in order, and what they show: the columns of the answer, and the rank."""

    def __init__(self, query: Query, arena: Arena, lead: int) -> None:
        """`lead`: columns of the plan before those of rows."""
        order = plan_of(query).order
        assert order is not None
        self._conditions = [(column - lead, down) for column, down in order.conditions]
        self._ties = [column - lead for column in order.ties]
        self._arena = arena
        self.width = len(query.columns)

    def rows(self, *, apart: bool = False) -> OrderedRows:
        """An empty list of rows; `apart`: their first cell is the number of an event, and events are ranked apart."""
        more = int(apart)
        conditions = [(column + more, down) for column, down in self._conditions]
        return OrderedRows(conditions, [column + more for column in self._ties], self._arena, lead=more)

    def ranked(self, rows: Ints, lists: Ints | None = None) -> Ints:
        """Rows in order as they are shown, with their ranks: from 1 on in each run of equal numbers of `lists`."""
        ranks = np.arange(1, len(rows) + 1)
        if lists is not None and len(rows):
            first = np.append(True, lists[1:] != lists[:-1])
            ranks -= np.maximum.accumulate(np.where(first, ranks - 1, 0))
        made = np.empty((len(rows), self.width), np.int64)
        made[:, :-1] = rows[:, : self.width - 1]
        made[:, -1] = integer_ids(ranks, self._arena)
        return made


def integer_ids(numbers: Ints, arena: Arena) -> Ints:
    """The ids of integers that are not negative."""
    size = len(numbers)
    target = np.empty(number_texts.LONGEST * size + 4 * SLACK, np.uint8)
    sizes, none = np.empty(size, np.int64), np.zeros(size, np.int64)
    number_texts.write(none + number_texts.AS_INTEGER, numbers, none, none + 1, target, sizes)
    return arena.intern_joined(sizes, target) if size else none
