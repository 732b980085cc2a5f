"""ORDER BY with LIMIT and OFFSET: a maintained list of rows, and what enters and leaves a range of its ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.expressions.ordering import TermOrder
from thalweg.kernels import ordered
from thalweg.operators.spans import Changes
from thalweg.operators.state import State
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
_FEW = 64
_LITTLE = 1024
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
        self._cells = ordered.KEY + self._key + len(ties)
        self._path = np.empty(ordered.DEEPEST, np.int64)
        self.clear()

    def clear(self) -> None:
        """Lets go of everything."""
        self._nodes = np.zeros((_FEW, self._cells), np.int64)
        self._head = np.array([0, -1, 0], np.int64)
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
            return self._changed((), changes, low, high)
        lists, of_row = np.unique(changes.rows[:, : self._lead], axis=0, return_inverse=True)
        parts = [
            self._changed(tuple(one), changes[of_row.ravel() == number], low, high)
            for number, one in enumerate(lists.tolist())
        ]
        return Changes.concat(parts, self.width)

    def _changed(self, lead: tuple[int, ...], changes: Changes, low: int, high: int) -> Changes:
        rows = changes.rows
        probes = np.empty((len(rows), self._key + len(self._ties)), np.int64)
        for k, column in enumerate(self._columns):
            place = ordered.CONDITION * k
            ids = np.ascontiguousarray(rows[:, column])
            probes[:, place : place + ordered.CONDITION] = self._order.keys(ids)
        probes[:, self._key :] = rows[:, self._ties]
        parts: list[Changes] = []
        start, root = 0, self._roots.get(lead, -1)
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
                out.time, out.weight, out.rows, start,
            )  # fmt: skip
            if written:
                parts.append(out[:written])
        self._roots[lead] = root
        if root < 0:
            del self._roots[lead]
        made = Changes.concat(parts, len(self._ties))
        cells = np.empty((len(made), self.width), np.int64)
        cells[:, : self._lead] = lead
        cells[:, self._lead :] = made.rows[:, self._back]
        return Changes(made.time, made.weight, cells).consolidated()

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
            cells[:, self._lead :] = self._nodes[nodes, ordered.KEY + self._key :][:, self._back]
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
    """LIMIT and OFFSET: the rows with some ranks in the order of conditions and texts."""

    replayable = True
    linear = False

    def __init__(self, rows: OrderedRows, offset: int, limit: int | None) -> None:
        self.width = rows.width
        self._rows = rows
        self._low = min(offset, _EVERYTHING)
        self._high = _EVERYTHING if limit is None else min(offset + limit, _EVERYTHING)

    def step(self, *inputs: Changes) -> Changes:
        """What enters and leaves these ranks."""
        (changes,) = inputs
        return self._rows.change(changes.consolidated(), self._low, self._high)

    def state(self) -> State:
        """All rows."""
        return self._rows.state()

    def restore(self, state: State) -> None:
        """Holds what a saved one held."""
        self._rows.restore(state)

    def live_ids(self) -> list[Ints]:
        """The term ids of the rows."""
        return [self._rows.content()[0].ravel()]

    def clear(self) -> None:
        """Lets go of everything."""
        self._rows.clear()

    def give_back(self, spare: int) -> bool:
        """Returns memory that the rows and `spare` more do not need; whether none is left to return."""
        return self._rows.give_back(spare)

    @property
    def held(self) -> int:
        """How many different rows are kept."""
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """The memory of the rows."""
        return self._rows.nbytes
