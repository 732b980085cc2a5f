"""ORDER BY with LIMIT and OFFSET: a maintained list of rows, and what enters and leaves a range of its ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.expressions.ordering import TermOrder
from thalweg.kernels import ordered
from thalweg.operators.spans import Changes
from thalweg.operators.state import State
from thalweg.operators.timeline import CountedRows
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
_FEW = 64
_LITTLE = 1024
_AHEAD = 1024
"""Rows that are put in order beyond those that are asked for, at least."""
_EVERYTHING = 1 << 62
_MOST_CONDITIONS = 60


class OrderedRows:
    """A multiset of rows in order: by conditions, pairs of a column and whether it descends, then by text.

    `ties` are all columns, in the order in which their texts decide. Rows that differ in their first `lead` cells are
    in lists of their own.
    """

    def __init__(
        self,
        conditions: Sequence[tuple[int, bool]],
        ties: Sequence[int],
        arena: Arena,
        *,
        lead: int = 0,
    ) -> None:
        if len(conditions) > _MOST_CONDITIONS:
            raise ValueError(f"there are at most {_MOST_CONDITIONS} conditions")
        self.width = lead + len(ties)
        self._lead = lead
        self._columns = [column for column, _ in conditions]
        self._descending = sum(1 << k for k, (_, down) in enumerate(conditions) if down)
        self._ties = np.array(ties, np.intp)
        self._back = np.argsort(self._ties)
        self._arena = arena
        self._order = TermOrder(arena)
        self._key = ordered.CONDITION * len(conditions)
        self._cells = ordered.KEY + self._key + len(ties) + 1
        self._path = np.empty(ordered.DEEPEST, np.int64)
        self.clear()

    @property
    def can_split(self) -> bool:
        """Whether rows can be told apart without texts, all in one list."""
        return bool(self._columns) and not self._lead

    def clear(self) -> None:
        """Lets go of everything."""
        self._nodes = np.zeros((_FEW, self._cells), np.int64)
        self._head = np.zeros(ordered.HEAD, np.int64)
        self._head[ordered.FREE] = -1
        self._roots: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        """How many different rows there are."""
        return int(self._head[ordered.USED]) - int(self._head[ordered.SPARE])

    def change(self, changes: Changes, low: int = 0, high: int = 0) -> Changes:
        """Applies changes; answers what enters and leaves the ranks from `low` to below `high` of the list."""
        if not len(changes):
            return Changes.empty(self.width)
        self._reserve(len(changes))
        if not self._lead:
            return self.change_from(changes, self.probes(changes.rows), low, high)[0]
        lists, of_row = np.unique(changes.rows[:, : self._lead], axis=0, return_inverse=True)
        parts = [
            self._changed(tuple(one), changes[of_row.ravel() == number], low, high)
            for number, one in enumerate(lists.tolist())
        ]
        return Changes.concat(parts, self.width)

    def _changed(self, lead: tuple[int, ...], changes: Changes, low: int, high: int) -> Changes:
        return self.change_from(changes, self.probes(changes.rows), low, high, lead=lead)[0]

    def probes(self, rows: Ints) -> Ints:
        """Rows as kernels compare them: the cells of their conditions, then their columns by which ties decide."""
        probes = np.empty((len(rows), self._key + len(self._ties)), np.int64)
        for k, column in enumerate(self._columns):
            place = ordered.CONDITION * k
            ids = np.ascontiguousarray(rows[:, column])
            probes[:, place : place + ordered.CONDITION] = self._order.keys(ids)
        probes[:, self._key :] = rows[:, self._ties]
        return probes

    def coarse(self, probes: Ints) -> Ints:
        """Integers in the order of rows, as far as it needs no text: where all of them are equal, texts decide."""
        cells = np.empty((len(probes), 3 * len(self._columns)), np.int64)
        by_text = np.zeros(len(probes), np.bool_)
        for k in range(len(self._columns)):
            place = ordered.CONDITION * k
            mine = probes[:, place : place + 3]
            down = (self._descending >> k) & 1
            cells[:, 3 * k : 3 * k + 3] = np.where(by_text[:, None], 0, ~mine if down else mine)
            by_text |= (ordered.BY_TEXT >> mine[:, 0]) & 1 != 0
        return cells

    def change_from(
        self,
        changes: Changes,
        probes: Ints,
        low: int,
        high: int,
        *,
        start: int = 0,
        left_out: NDArray[np.bool_] | None = None,
        least: int = 0,
        lead: tuple[int, ...] = (),
    ) -> tuple[Changes, int]:
        """Applies changes of one list from `start` on, but those that are left out; answers what enters and leaves the
        ranks, and where it stopped: before a change that would leave less than `least` rows.
        """
        rows = changes.rows
        self._reserve(len(changes))
        none = np.zeros(len(rows), np.bool_) if left_out is None else left_out
        parts: list[Changes] = []
        root = self._roots.get(lead, -1)
        while start < len(rows):
            room = 2 * max(len(rows) - start, int(np.abs(changes.weight[start]))) if high > low else 1
            out = Changes(
                np.empty(room, np.int64),
                np.empty(room, np.int64),
                np.empty((room, len(self._ties)), np.int64),
            )
            start, root, written = ordered.step(
                changes.time, changes.weight, probes, root, len(self._columns), self._descending, len(self._ties),
                low, high, self._nodes, self._head, self._path, self._arena.slots, self._arena.log,
                out.time, out.weight, out.rows, start, none, least,
            )  # fmt: skip
            if written:
                parts.append(out[:written])
            elif start < len(rows):
                break
        self._roots[lead] = root
        if root < 0:
            del self._roots[lead]
        made = Changes.concat(parts, len(self._ties))
        cells = np.empty((len(made), self.width), np.int64)
        cells[:, : self._lead] = lead
        cells[:, self._lead :] = made.rows[:, self._back]
        return Changes(made.time, made.weight, cells).consolidated(), start

    def add(self, weights: Ints, rows: Ints) -> None:
        """Adds weights to rows."""
        self.change(Changes(np.zeros(len(rows), np.int64), weights, rows))

    def content(self) -> tuple[Ints, Ints]:
        """The rows in order, list by list, and how often they are there."""
        places = np.empty(len(self) + 1, np.int64)
        found, counts = [np.empty((0, self.width), np.int64)], [np.empty(0, np.int64)]
        for lead, root in self._roots.items():
            nodes = places[: ordered.in_order(self._nodes, self._cells, root, self._path, places)].copy()
            cells = np.empty((len(nodes), self.width), np.int64)
            cells[:, : self._lead] = lead
            first = ordered.KEY + self._key
            cells[:, self._lead :] = self._nodes[nodes, first:-1][:, self._back]
            found.append(cells)
            counts.append(self._nodes[nodes, ordered.COUNT])
        return np.concatenate(found), np.concatenate(counts)

    def _reserve(self, more: int) -> None:
        spare = len(self._nodes) - len(self)
        if more > spare:
            grown = np.zeros((max(more, len(self._nodes) // 2), self._cells), np.int64)
            self._nodes = np.concatenate([self._nodes, grown])

    def state(self) -> State:
        """The rows, and how often they are there."""
        rows, counts = self.content()
        return {"rows": rows, "counts": counts}

    def restore(self, state: State) -> None:
        """Holds what a saved one held."""
        self.clear()
        self.add(state["counts"], state["rows"])

    def give_back(self, spare: int = 0) -> bool:
        """Returns memory that the rows and `spare` more do not need; whether none is left to return."""
        if len(self._nodes) > 8 * (len(self) + spare) + _LITTLE:
            self.restore(self.state())
        return spare == 0 or len(self._nodes) <= 8 * len(self) + _LITTLE

    @property
    def nbytes(self) -> int:
        """The memory of the nodes."""
        return self._nodes.nbytes + self._order.nbytes


class SliceRows:
    """LIMIT and OFFSET: the rows with some ranks in the order of conditions and texts.

    Of many rows, only the first ones, some more than the ranks need, are in order. The others are behind a bound: their
    `coarse` cells are larger than its. They are counted, and put in order when too few are left before the bound. So
    most changes cost no comparison of texts.
    """

    replayable = True
    linear = False

    def __init__(self, rows: OrderedRows, offset: int, limit: int | None) -> None:
        self.width = rows.width
        self._first = rows
        self._low = min(offset, _EVERYTHING)
        self._high = _EVERYTHING if limit is None else min(offset + limit, _EVERYTHING)
        self._splits = limit is not None and rows.can_split
        self.clear()

    def clear(self) -> None:
        """Lets go of everything."""
        self._first.clear()
        self._behind = CountedRows(self.width)
        self._bound: Ints | None = None
        self._most = 4 * self._enough(0)

    def _enough(self, rows: int) -> int:
        """How many of so many rows are put in order: what they cost is paid by as many changes."""
        return 2 * self._high + max(_AHEAD, rows // 32)

    def step(self, *inputs: Changes) -> Changes:
        """What enters and leaves these ranks."""
        (changes,) = inputs
        changes = changes.consolidated()
        if not self._splits or not len(changes):
            return self._first.change(changes, self._low, self._high)
        probes = self._first.probes(changes.rows)
        parts: list[Changes] = []
        start = 0
        while start < len(changes):
            behind = self._is_behind(probes)
            least = 0 if self._bound is None else self._high
            made, end = self._first.change_from(
                changes, probes, self._low, self._high, start=start, left_out=behind, least=least
            )
            parts.append(made)
            gone = start + np.flatnonzero(behind[start:end])
            self._behind.add(changes.weight[gone], changes.rows[gone])
            if end < len(changes):
                self._refill()
            start = end
        if len(self._first) > self._most:
            self._spill()
        return Changes.concat([part for part in parts if len(part)], self.width)

    def _is_behind(self, probes: Ints) -> NDArray[np.bool_]:
        if self._bound is None:
            return np.zeros(len(probes), np.bool_)
        return _larger(self._first.coarse(probes), self._bound)

    def _cut(self, rows: Ints, enough: int) -> NDArray[np.bool_]:
        """Sets the bound so that it leaves so many of some rows before it, or more; answers which are behind."""
        cells = self._first.coarse(self._first.probes(rows))
        self._bound = cells[np.lexsort(cells.T[::-1])[enough]]
        return _larger(cells, self._bound)

    def _refill(self) -> None:
        """Puts the first rows behind the bound in order."""
        rows, counts = self._behind.content()
        enough = self._enough(len(rows))
        if len(rows) > enough:
            behind = self._cut(rows, enough)
        else:
            self._bound, behind = None, np.zeros(len(rows), np.bool_)
        self._first.add(counts[~behind], rows[~behind])
        self._behind = CountedRows(self.width)
        self._behind.add(counts[behind], rows[behind])
        self._most = max(4 * enough, 2 * len(self._first))

    def _spill(self) -> None:
        """Leaves rows behind a bound, as far as they are not needed."""
        enough = self._enough(self.held)
        if len(self._first) > enough:
            rows, counts = self._first.content()
            behind = self._cut(rows, enough)
            self._first.clear()
            self._first.add(counts[~behind], rows[~behind])
            self._behind.add(counts[behind], rows[behind])
        self._most = max(4 * enough, 2 * len(self._first))

    def state(self) -> State:
        """All rows."""
        (rows, counts), (others, more) = self._first.content(), self._behind.content()
        return {"rows": np.concatenate([rows, others]), "counts": np.concatenate([counts, more])}

    def restore(self, state: State) -> None:
        """Holds what a saved one held."""
        self.clear()
        self._first.add(state["counts"], state["rows"])
        if self._splits and len(self._first) > self._most:
            self._spill()

    def live_ids(self) -> list[Ints]:
        """The term ids of the rows."""
        return [self._first.content()[0].ravel(), self._behind.content()[0].ravel()]

    def give_back(self, spare: int) -> bool:
        """Returns memory that the rows and `spare` more do not need; whether none is left to return."""
        done = self._first.give_back(spare)
        return self._behind.give_back(spare) and done

    @property
    def held(self) -> int:
        """How many different rows are kept."""
        return len(self._first) + len(self._behind)

    @property
    def nbytes(self) -> int:
        """The memory of the rows."""
        return self._first.nbytes + self._behind.nbytes


def _larger(cells: Ints, bound: Ints) -> NDArray[np.bool_]:
    """Which rows are larger than a bound, the first cells first."""
    larger = np.zeros(len(cells), np.bool_)
    for k in range(len(bound) - 1, -1, -1):
        larger = (cells[:, k] > bound[k]) | ((cells[:, k] == bound[k]) & larger)
    return larger
