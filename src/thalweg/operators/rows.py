"""Operators that keep no rows: unions, conditions, computed columns, other columns, tables of constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.expressions.evaluate import Evaluator
from thalweg.operators.runs import in_time_order
from thalweg.operators.spans import Changes
from thalweg.operators.state import State
from thalweg.operators.template import Template

Ints = NDArray[np.int64]
_FEW = 16


class Stateless:
    """An operator that keeps no rows."""

    replayable = linear = True
    held = 0
    width: int

    def state(self) -> State:
        """Nothing."""
        return {}

    def restore(self, state: State) -> None:
        """Nothing is kept."""

    def live_ids(self) -> list[Ints]:
        """Constants."""
        return []

    def clear(self) -> None:
        """Nothing is kept."""

    def give_back(self, spare: int) -> bool:
        """Nothing is kept."""
        return True

    @property
    def nbytes(self) -> int:
        """The memory beside rows."""
        return 0


class MergeRows(Stateless):
    """UNION: the rows of all inputs."""

    def __init__(self, width: int) -> None:
        self.width = width

    def step(self, *inputs: Changes) -> Changes:
        """The changes of the inputs in time order."""
        merged = Changes.concat([changes for changes in inputs if len(changes)], self.width)
        return merged if in_time_order(merged.time) else merged[np.argsort(merged.time, kind="stable")]


class CutRows(Stateless):
    """The cut between two stages: the rows of all inputs with as many cells, the last one the number of the input."""

    linear = False

    def __init__(self, width: int) -> None:
        self.width = width

    def step(self, *inputs: Changes) -> Changes:
        """The changes of the inputs in time order; equal rows of an instant are one."""
        parts = []
        for number, changes in enumerate(inputs):
            rows = np.zeros((len(changes), self.width), np.int64)
            rows[:, : changes.rows.shape[1]] = changes.rows
            rows[:, -1] = number
            parts.append(Changes(changes.time, changes.weight, rows))
        merged = Changes.concat([changes for changes in parts if len(changes)], self.width)
        if not in_time_order(merged.time):
            merged = merged[np.argsort(merged.time, kind="stable")]
        return merged.consolidated(sums=True)


class RowOperator(Stateless):
    """An operator that takes rows one by one: what it gives for a row depends on that row alone."""

    def rows(self, rows: Ints) -> tuple[Ints | None, Ints]:
        """The rows of the result, and for each the row that it is of; None: one for each, in order."""
        raise NotImplementedError

    def step(self, *inputs: Changes) -> Changes:
        """The result of each row, with its time and weight."""
        (changes,) = inputs
        if not len(changes):
            return Changes.empty(self.width)
        origin, rows = self.rows(changes.rows)
        if origin is None:
            return Changes(changes.time, changes.weight, rows)
        return Changes(changes.time[origin], changes.weight[origin], rows)


class _Evaluating(RowOperator):
    """An operator that asks an expression of each row."""

    def __init__(self, expression: Evaluator, width: int) -> None:
        self._expression = expression
        self.width = width

    def live_ids(self) -> list[Ints]:
        """The constants of the expression."""
        return [self._expression.live_ids()]

    @property
    def nbytes(self) -> int:
        """The memory of values that were looked up."""
        return self._expression.nbytes


class SelectRows(_Evaluating):
    """FILTER: the rows that fulfil a condition."""

    def rows(self, rows: Ints) -> tuple[Ints | None, Ints]:
        """The rows that fulfil it."""
        chosen = np.flatnonzero(self._expression.holds(rows))
        return chosen, rows[chosen]


class ComputeRows(_Evaluating):
    """BIND: one more column."""

    def rows(self, rows: Ints) -> tuple[Ints | None, Ints]:
        """The rows with the value of the expression, 0 where it has none."""
        return None, np.concatenate([rows, self._expression.values(rows)[:, None]], axis=1)


class RenameRows(RowOperator):
    """Other columns: each the first of some columns that is bound."""

    def __init__(self, sources: Sequence[Sequence[int]]) -> None:
        self._sources = [list(places) for places in sources]
        self.width = len(self._sources)
        self._plain = all(len(places) == 1 for places in self._sources)
        self._places = np.array([places[0] for places in self._sources] if self._plain else [], np.intp)

    def rows(self, rows: Ints) -> tuple[Ints | None, Ints]:
        """The rows with these columns."""
        if self._plain:
            return None, rows[:, self._places]
        made = np.zeros((len(rows), self.width), np.int64)
        for column, places in enumerate(self._sources):
            for place in places:
                made[:, column] = np.where(made[:, column] == 0, rows[:, place], made[:, column])
        return None, made


class CompatibleRows(RowOperator):
    """The rows in which pairs of columns agree where both are bound; with `overlap`, some pair is bound in both."""

    def __init__(self, pairs: Sequence[tuple[int, int]], width: int, *, overlap: bool) -> None:
        self._pairs = list(pairs)
        self._overlap = overlap
        self.width = width

    def rows(self, rows: Ints) -> tuple[Ints | None, Ints]:
        """The rows that are compatible."""
        agree = np.ones(len(rows), np.bool_)
        shared = np.zeros(len(rows), np.bool_)
        for one, other in self._pairs:
            both = (rows[:, one] != 0) & (rows[:, other] != 0)
            agree &= ~both | (rows[:, one] == rows[:, other])
            shared |= both
        chosen = np.flatnonzero(agree & shared if self._overlap else agree)
        return chosen, rows[chosen]


class ExpandRows(RowOperator):
    """VALUES: each row with the rows of a table that are compatible with it.

    `shared` are pairs of columns: of a row, and of the table. `added` are the further columns of the table.
    """

    def __init__(
        self, table: Ints, shared: Sequence[tuple[int, int]], added: Sequence[int], width: int
    ) -> None:
        self._table = table
        self._added = list(added)
        self._shared = list(shared)
        self.width = width + len(self._added)
        # By the columns that the table binds in all of its rows, its rows are looked up; the others are compared.
        self._sure = [(mine, theirs) for mine, theirs in self._shared if (table[:, theirs] != 0).all()]
        self._doubtful = [pair for pair in self._shared if pair not in self._sure]
        self._index = _Index(table[:, [theirs for _, theirs in self._sure]])

    def rows(self, rows: Ints) -> tuple[Ints | None, Ints]:
        """The pairs, with the columns of both."""
        origin, number = self._index.pairs(rows[:, [place for place, _ in self._sure]])
        if not len(origin):
            return origin, np.empty((0, self.width), np.int64)
        made, other = rows[origin], self._table[number]
        agree = np.ones(len(made), np.bool_)
        for place, theirs in self._shared:
            left, right = made[:, place], other[:, theirs]
            agree &= (left == 0) | (right == 0) | (left == right)
            made[:, place] = np.where(left == 0, right, left)
        made = np.concatenate([made, other[:, self._added]], axis=1)
        return origin[agree], made[agree]

    def live_ids(self) -> list[Ints]:
        """The terms of the table."""
        return [self._table.ravel()]

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        return self._table.nbytes + self._index.nbytes


class _Index:
    """The rows of a table of bound cells, by their cells: a sorted array for each column."""

    def __init__(self, table: Ints) -> None:
        size = len(table)
        self._columns: list[tuple[Ints, Ints]] = []
        code = np.zeros(size, np.int64)
        for column in table.T:
            # The cells up to this column as one number: that of the cells before it, and the rank of this cell.
            values, rank = np.unique(column, return_inverse=True)
            codes, code = np.unique(code * len(values) + rank, return_inverse=True)
            self._columns.append((values, codes))
        # Few rows are looked up one by one: a call of NumPy takes as long as several of them.
        self._codes = dict(zip(map(tuple, table.tolist()), code.tolist(), strict=True))
        # Row numbers by code, and behind them all rows in order.
        self._numbers = np.concatenate([np.argsort(code, kind="stable"), np.arange(size)])
        self._counts = np.append(np.bincount(code, minlength=1), size)
        self._starts = np.append(np.cumsum(self._counts[:-1]) - self._counts[:-1], size)

    def pairs(self, rows: Ints) -> tuple[Ints, Ints]:
        """Each row with the numbers of the table's equal rows; a row with an unbound cell with all numbers."""
        if len(rows) <= _FEW:
            return self._few_pairs(rows)
        code = np.zeros(len(rows), np.int64)
        found = np.full(len(rows), self._counts[-1] > 0)
        everything = len(self._counts) - 1
        for column, (values, codes) in zip(rows.T, self._columns, strict=True):
            if not len(values):
                break
            rank = np.minimum(np.searchsorted(values, column), len(values) - 1)
            found &= values[rank] == column
            wanted = code * len(values) + rank
            code = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
            found &= codes[code] == wanted
        unbound = (rows == 0).any(axis=1)
        code[unbound] = everything
        count = np.where(found | unbound, self._counts[code], 0)
        origin = np.repeat(np.arange(len(rows)), count)
        first = np.cumsum(count) - count
        return origin, self._numbers[np.arange(len(origin)) + (self._starts[code] - first)[origin]]

    def _few_pairs(self, rows: Ints) -> tuple[Ints, Ints]:
        origin: list[int] = []
        numbers = [self._numbers[:0]]
        for k, cells in enumerate(rows.tolist()):
            code = self._codes.get(tuple(cells)) if all(cells) else len(self._counts) - 1
            if code is not None:
                start, count = self._starts.item(code), self._counts.item(code)
                origin += [k] * count
                numbers.append(self._numbers[start : start + count])
        return np.array(origin, np.intp), np.concatenate(numbers)

    @property
    def nbytes(self) -> int:
        """The memory of the arrays."""
        arrays = [self._numbers, self._counts, self._starts, *(one for pair in self._columns for one in pair)]
        return sum(array.nbytes for array in arrays)


class ConstructTriples(RowOperator):
    """CONSTRUCT's template: a row becomes triples; `lead` columns of the row come before each of them."""

    def __init__(self, template: Template, lead: int = 0) -> None:
        self._template = template
        self._lead = lead
        self.width = 3 + lead

    def rows(self, rows: Ints) -> tuple[Ints | None, Ints]:
        """The triples of the rows."""
        origin, triples = self._template.triples(rows[:, self._lead :])
        if self._lead:
            triples = np.concatenate([rows[origin, : self._lead], triples], axis=1)
        return origin, triples

    def live_ids(self) -> list[Ints]:
        """The constants of the template."""
        return [self._template.constants]
