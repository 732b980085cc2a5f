"""GROUP BY: rows by key, and the aggregates of each group, exact under any sequence of changes.

A kernel keeps the groups and writes a record of each one that an instant changed. From records the values of
aggregates are made, column by column. What a group showed before is kept as ids, to be taken back to the letter.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import ThalwegWarning
from thalweg.expressions import strings
from thalweg.expressions.memo import Terms
from thalweg.expressions.ordering import TermOrder
from thalweg.expressions.sums import ExactSum, average
from thalweg.expressions.values import LONGEST_STRING, NUMERIC, ExpressionError, Value, string
from thalweg.kernels import groups as kernel
from thalweg.kernels import number_texts, ordered
from thalweg.kernels.bits import SLACK
from thalweg.operators.spans import Changes
from thalweg.operators.state import State
from thalweg.operators.timeline import CountedRows
from thalweg.plan.physical import Aggregation
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
_FEW = 64
_LITTLE = 1024
_LINE = 8
"""Cells of a cache line."""
_NODE = ordered.KEY + ordered.CONDITION
_KINDS = {
    "COUNT": kernel.COUNTS,
    "SUM": kernel.SUMS,
    "AVG": kernel.SUMS,
    "MIN": kernel.BY_VALUE,
    "MAX": kernel.BY_VALUE,
    "SAMPLE": kernel.BY_TEXT,
    "GROUP_CONCAT": kernel.BY_TEXT,
}
_SETS = (kernel.COUNTS, kernel.SUMS)
"""Accumulators that tell copies of a term from one; the others do not, or do it themselves."""
_LARGE = kernel.BILLION * kernel.BILLION
Slot = tuple[int, tuple[int, ...], bool, bool]
"""An accumulator: its kind, the columns of its argument, whether it takes a set of them, and whether it takes rows."""


class GroupRows:
    """Groups of rows by their first `key` cells.

    `implicit`: a group is there since the second input has a row of its key: of nothing, or of an event.
    """

    replayable = True
    linear = False

    def __init__(
        self, key: int, aggregates: Sequence[Aggregation], arena: Arena, *, implicit: bool = False
    ) -> None:
        self.key = key
        self.width = key + len(aggregates)
        self._aggregates = list(aggregates)
        self._implicit = implicit
        self._arena = arena
        self._terms = Terms(arena)
        self._order = TermOrder(arena)
        self._slots: list[Slot] = []
        self._slot_of = [self._slot(one) for one in aggregates]
        self._definition = np.array([[kind] for kind, *_ in self._slots], np.int64).reshape(-1, 1)
        self._first = kernel.SLOTS + kernel.SLOT * len(self._slots)
        self._concatenates = any(one.function == "GROUP_CONCAT" for one in aggregates)
        self._warned = False
        self._path = np.empty(ordered.DEEPEST, np.int64)
        self.clear()

    def _slot(self, one: Aggregation) -> int:
        """The accumulator of an aggregate; several aggregates of one argument share it."""
        kind = _KINDS[one.function]
        slot = (kind, one.columns, one.distinct and kind in _SETS, one.rows)
        if slot not in self._slots:
            self._slots.append(slot)
        return self._slots.index(slot)

    def clear(self) -> None:
        """Lets go of everything."""
        self._sets = {
            s: CountedRows(self.key + len(columns))
            for s, (_, columns, distinct, _) in enumerate(self._slots)
            if distinct
        }
        self._exact: dict[tuple[int, int], ExactSum] = {}
        self._groups = np.zeros((_FEW, self._first + self.key), np.int64)
        self._shown = np.zeros((_FEW, len(self._aggregates)), np.int64)
        self._used = self._held = 0
        self._nodes = _with_room(np.zeros((0, _NODE), np.int64), _FEW)
        self._head = np.zeros(ordered.HEAD, np.int64)
        self._head[ordered.FREE] = -1
        self._index(_FEW)

    def _index(self, room: int) -> None:
        size = 2 * _FEW
        while 2 * size < 3 * room:
            size *= 2
        self._table = np.full(size, -1, np.int64)
        kernel.index(self._table, self._groups, self._used, self._first, self.key)

    # Steps

    def step(self, *inputs: Changes) -> Changes:
        """The netted changes of the groups and their aggregates."""
        changes, starts = self._joined(*inputs)
        if not len(changes):
            return Changes.empty(self.width)
        self._reserve(len(changes))
        rows = np.ascontiguousarray(changes.rows)
        own, arguments = self._arguments(changes.weight, rows, starts)
        parts: list[Changes] = []
        start = 0
        group_of = np.empty(len(changes), np.int64)
        self._used = kernel.find(
            rows, self.key, self._definition, self._table, self._groups, self._used, group_of
        )
        records = np.empty((len(changes), kernel.RECORD + kernel.SLOT * len(self._slots)), np.int64)
        while start < len(changes):
            end, written = kernel.step(
                changes.time, changes.weight, starts, self._definition, own, arguments, self._implicit,
                self._groups, self._nodes, self._head, self._path, self._arena.slots, self._arena.log,
                group_of, records, start, self._concatenates,
            )  # fmt: skip
            parts.append(
                self._emitted(
                    records[:written], changes, slice(start, end), group_of, own, arguments, written
                )
            )
            start = end
        return Changes.concat(parts, self.width)

    def _joined(self, changes: Changes, start: Changes | None = None) -> tuple[Changes, NDArray[np.bool_]]:
        """The changes of both inputs in time order, and which are of the start."""
        changes = changes.consolidated()
        if start is None or not len(start):
            return changes, np.zeros(len(changes), np.bool_)
        width = changes.rows.shape[1]
        cells = np.zeros((len(start), width), np.int64)
        cells[:, : self.key] = start.rows[:, : self.key]
        both = Changes.concat([changes, Changes(start.time, start.weight, cells)], width)
        starts = np.arange(len(both)) >= len(changes)
        order = np.argsort(both.time, kind="stable")
        return both[order], starts[order]

    def _arguments(self, weight: Ints, rows: Ints, starts: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """For each row and accumulator how often it counts, and its argument."""
        own = np.repeat(weight[:, None], len(self._slots), axis=1)
        arguments = np.zeros((len(rows), len(self._slots), kernel.ARGUMENT), np.int64)
        read: dict[tuple[int, int], Any] = {}
        for s, (kind, columns, distinct, whole) in enumerate(self._slots):
            if distinct:
                there = np.flatnonzero(~starts)
                cells = rows[there][:, [*range(self.key), *columns]]
                own[there, s] = self._sets[s].add(weight[there], cells)
            if kind == kernel.COUNTS:
                # `*` counts rows, also one that binds nothing.
                arguments[:, s, 0] = 1 if whole else rows[:, columns[0]] != 0
                continue
            ids = np.ascontiguousarray(rows[:, columns[0]])
            if kind == kernel.SUMS:
                if (0, columns[0]) not in read:
                    read[0, columns[0]] = self._arena.numbers(ids)
                kinds, numbers = read[0, columns[0]]
                kernel.sum_arguments(kinds, numbers, s, arguments)
                self._check_numbers(s, ids, arguments)
            elif kind == kernel.BY_VALUE:
                arguments[:, s, : ordered.CONDITION] = self._order.keys(ids)
                arguments[:, s, ordered.CONDITION] = ids
            else:
                arguments[:, s, 3] = arguments[:, s, 4] = ids
        return own, arguments

    def _check_numbers(self, s: int, ids: Ints, arguments: Ints) -> None:
        """Terms that the kernel could not read may be no numbers."""
        doubtful = np.flatnonzero(arguments[:, s, 0] == kernel.BY_CALLER)
        if len(doubtful):
            self._terms.refresh()
            for place, value in zip(
                doubtful.tolist(), self._terms.values(ids[doubtful].tolist()), strict=True
            ):
                if value is None or value.kind not in NUMERIC:
                    arguments[place, s, 0] = kernel.ERROR

    def _emitted(
        self,
        records: Ints,
        changes: Changes,
        part: slice,
        group_of: Ints,
        own: Ints,
        arguments: Ints,
        written: int,
    ) -> Changes:
        values = np.zeros((written, len(self._aggregates)), np.int64)
        exact = {
            s: self._exact_totals(s, records, changes, part, group_of, own[:, s], arguments[:, s, 0])
            for s, (kind, *_) in enumerate(self._slots)
            if kind == kernel.SUMS
        }
        for place, (one, s) in enumerate(zip(self._aggregates, self._slot_of, strict=True)):
            cells = records[:, kernel.RECORD + kernel.SLOT * s : kernel.RECORD + kernel.SLOT * (s + 1)]
            values[:, place] = self._values(one, cells, records, exact.get(s, {}))
        out = Changes(
            np.empty(2 * written, np.int64),
            np.empty(2 * written, np.int64),
            np.empty((2 * written, self.width), np.int64),
        )
        size = kernel.emit(
            records,
            values,
            self._groups,
            self._shown,
            self._first,
            self.key,
            out.time,
            out.weight,
            out.rows,
        )
        self._held = -1
        return out[:size]

    # Values of aggregates

    def _values(self, one: Aggregation, cells: Ints, records: Ints, exact: dict[int, Value | None]) -> Ints:
        """The ids of an aggregate's values, 0 for an error; `cells` are those of its accumulator in the records."""
        match one.function:
            case "COUNT":
                return self._numbers(number_texts.AS_INTEGER, cells[:, kernel.NUMBER])
            case "SUM" | "AVG":
                return self._sums(one.function == "AVG", cells, exact)
            case "MIN" | "MAX":
                place = kernel.FIRST if one.function == "MIN" else kernel.LAST
                return np.where(cells[:, kernel.BAD] > 0, 0, cells[:, place])
            case "SAMPLE":
                return cells[:, kernel.FIRST]
        return self._interned(
            [
                None if bad else self._concatenated(group, one)
                for bad, group in zip(cells[:, kernel.BAD].tolist(), records[:, 1].tolist(), strict=True)
            ]
        )

    def _sums(self, averaged: bool, cells: Ints, exact: dict[int, Value | None]) -> Ints:
        count, decimals = cells[:, kernel.NUMBER], cells[:, kernel.DECIMALS]
        mode = np.where(decimals > 0, number_texts.AS_DECIMAL, number_texts.AS_INTEGER)
        if averaged:
            mode = np.where(count > 0, number_texts.AS_AVERAGE, number_texts.AS_INTEGER)
        ids = self._numbers(mode, cells[:, kernel.UNITS], cells[:, kernel.BILLIONTHS], np.maximum(count, 1))
        for place, total in exact.items():
            if total is not None and averaged:
                total = self._average(total, int(count[place]))
            ids[place] = self._interned([total])[0]
        ids[cells[:, kernel.BAD] > 0] = 0
        return ids

    def _average(self, total: Value, count: int) -> Value | None:
        try:
            return average(total, count)
        except ExpressionError:
            return None

    def _numbers(
        self, mode: int | Ints, units: Ints, billionths: Ints | None = None, counts: Ints | None = None
    ) -> Ints:
        """The ids of numbers, which a kernel writes."""
        size = len(units)
        if not size:
            return np.empty(0, np.int64)
        one = np.ones(size, np.int64)
        target = np.empty(number_texts.LONGEST * size + 4 * SLACK, np.uint8)
        sizes = np.empty(size, np.int64)
        number_texts.write(
            one * mode,
            np.ascontiguousarray(units),
            0 * one if billionths is None else np.ascontiguousarray(billionths),
            one if counts is None else counts,
            target,
            sizes,
        )
        return self._arena.intern_joined(sizes, target)

    def _exact_totals(
        self, s: int, records: Ints, changes: Changes, part: slice, group_of: Ints, own: Ints, codes: Ints
    ) -> dict[int, Value | None]:
        """The sums that the kernel could not make, by record; None for an error."""
        cells = records[:, kernel.RECORD + kernel.SLOT * s : kernel.RECORD + kernel.SLOT * (s + 1)]
        mine = part.start + np.flatnonzero((codes[part] == kernel.BY_CALLER) & (own[part] != 0))
        left = np.flatnonzero((cells[:, kernel.EXACT] != 0) | (cells[:, kernel.LARGE] != 0))
        if not len(mine) and not len(left):
            return {}
        column = self._slots[s][1][0]
        numbers = self._terms.values(changes.rows[mine, column].tolist())
        groups, weights = group_of[mine].tolist(), own[mine].tolist()
        times = changes.time[mine].tolist()
        totals: dict[int, Value | None] = {}
        at = 0
        # A group may have a record without such numbers after one with them, whose rows are taken first.
        for place in range(len(records)):
            while at < len(times) and times[at] <= records[place, 0]:
                number = numbers[at]
                assert number is not None
                key = groups[at], s
                total = self._exact.setdefault(key, ExactSum())
                total.add(number, weights[at])
                if not total:
                    del self._exact[key]
                at += 1
            if cells[place, kernel.EXACT] != 0 or cells[place, kernel.LARGE] != 0:
                units = int(cells[place, kernel.LARGE]) * _LARGE + int(cells[place, kernel.UNITS])
                total = self._exact.get((int(records[place, 1]), s)) or ExactSum()
                try:
                    totals[place] = total.value(
                        units, int(cells[place, kernel.BILLIONTHS]), int(cells[place, kernel.DECIMALS])
                    )
                except ExpressionError:
                    totals[place] = None
        return totals

    def _concatenated(self, group: int, one: Aggregation) -> Value | None:
        """The texts of a group's terms in the order of their N-Triples texts; None for an error."""
        s = self._slot_of[self._aggregates.index(one)]
        root = int(self._groups[group, kernel.SLOTS + kernel.SLOT * s + kernel.ROOT])
        nodes = np.empty(int(self._head[ordered.USED]), np.int64)
        nodes = nodes[: ordered.in_order(self._nodes, _NODE, root, self._path, nodes)]
        self._terms.refresh()
        parts: list[str] = []
        size = 0
        counts = self._nodes[nodes, ordered.COUNT].tolist()
        try:
            for id, count in zip(self._nodes[nodes, ordered.KEY].tolist(), counts, strict=True):
                (value,) = self._terms.values([id])
                assert value is not None
                text = strings.str_(value).content
                size += (1 if one.distinct else count) * (len(text) + len(one.separator))
                if size > LONGEST_STRING + len(one.separator):
                    self._warn_of_length()
                    raise ExpressionError("a string of too many characters")
                parts.extend(repeat(text, 1 if one.distinct else count))
            return string(one.separator.join(parts))
        except ExpressionError:
            return None

    def _warn_of_length(self) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"a GROUP_CONCAT has more than {LONGEST_STRING:,} characters: it has no value while it is so long",
                ThalwegWarning,
                stacklevel=2,
            )

    def _interned(self, values: list[Value | None]) -> Ints:
        ids = iter(self._arena.intern_all([v.text.encode() for v in values if v is not None]).tolist())
        return np.array([0 if value is None else next(ids) for value in values], np.int64)

    # Memory

    def _live(self) -> NDArray[np.bool_]:
        used = self._groups[: self._used]
        return (used[:, [kernel.ROWS, kernel.STARTS, kernel.SHOWN]] != 0).any(axis=1)

    @property
    def _trees(self) -> list[int]:
        return [s for s, (kind, *_) in enumerate(self._slots) if kind >= kernel.BY_VALUE]

    def _reserve(self, more: int) -> None:
        if self._used + more > len(self._groups):
            self._move_groups(2 * (int(self._live().sum()) + more))
        wanted = more * len(self._trees)
        spare = len(self._nodes) - int(self._head[ordered.USED]) + int(self._head[ordered.SPARE])
        if wanted > spare:
            self._nodes = _with_room(self._nodes, max(wanted, len(self._nodes) // 2))

    def _move_groups(self, room: int) -> None:
        """Leaves behind the groups that are gone, and makes room for so many in all."""
        live = self._live()
        numbers = np.cumsum(live) - 1
        self._exact = {(int(numbers[group]), s): total for (group, s), total in self._exact.items()}
        kept, shown = self._groups[: self._used][live], self._shown[: self._used][live]
        room = max(room, _FEW)
        self._used = len(kept)
        self._groups = np.zeros((room, kept.shape[1]), np.int64)
        self._shown = np.zeros((room, shown.shape[1]), np.int64)
        self._groups[: self._used], self._shown[: self._used] = kept, shown
        self._index(room)

    def _move_nodes(self) -> None:
        """Leaves behind the free nodes of ordered multisets."""
        used = int(self._head[ordered.USED])
        live = self._nodes[:used, ordered.COUNT] != 0
        numbers = np.append(np.cumsum(live) - 1, -1)  # the last one is for -1
        kept = self._nodes[:used][live]
        for side in (ordered.LEFT, ordered.RIGHT):
            kept[:, side] = numbers[kept[:, side]]
        for s in self._trees:
            place = kernel.SLOTS + kernel.SLOT * s + kernel.ROOT
            self._groups[: self._used, place] = numbers[self._groups[: self._used, place]]
        self._nodes = _with_room(kept, len(kept) // 2 + _FEW)
        self._head[:] = len(kept), -1, 0, 0

    def state(self) -> State:
        """The groups, their ordered multisets, their sums and their sets."""
        self._move_groups(self._used)
        self._move_nodes()
        return {
            "groups": self._groups[: self._used],
            "shown": self._shown[: self._used],
            "nodes": self._nodes[: int(self._head[ordered.USED])],
            "exact": [[*key, total.state()] for key, total in self._exact.items()],
            "sets": [counts.state() for counts in self._sets.values()],
        }

    def restore(self, state: State) -> None:
        """Keeps what a saved one kept."""
        self.clear()
        self._used = len(state["groups"])
        self._groups = np.concatenate([state["groups"], self._groups])
        self._shown = np.concatenate([state["shown"], self._shown])
        self._nodes = _with_room(state["nodes"], _FEW)
        self._head[ordered.USED] = len(state["nodes"])
        self._index(len(self._groups))
        self._exact = {(group, s): ExactSum(total) for group, s, total in state["exact"]}
        for counts, saved in zip(self._sets.values(), state["sets"], strict=True):
            counts.restore(saved)

    def live_ids(self) -> list[Ints]:
        """The term ids of keys, of what is shown, and of ordered multisets and sets."""
        nodes = self._nodes[: int(self._head[ordered.USED])]
        nodes = nodes[nodes[:, ordered.COUNT] != 0]
        # Where there is no sort key, its first cell has the term.
        terms = nodes[:, ordered.KEY + ordered.CONDITION - 1]
        terms = np.where(terms == 0, nodes[:, ordered.KEY], terms)
        sets = [counts.content()[0].ravel() for counts in self._sets.values()]
        return [
            self._groups[: self._used, self._first :].ravel(),
            self._shown[: self._used].ravel(),
            terms,
            *sets,
        ]

    def give_back(self, spare: int) -> bool:
        """Returns memory that the groups and `spare` more rows do not need; whether none is left to return."""
        done = True
        for counts in self._sets.values():
            done = counts.give_back(spare) and done
        live = int(self._live().sum())
        if len(self._groups) > 8 * (live + spare) + _LITTLE:
            self._move_groups(2 * (live + spare))
        nodes = int(self._head[ordered.USED]) - int(self._head[ordered.SPARE])
        if len(self._nodes) > 8 * (nodes + spare * len(self._trees)) + _LITTLE:
            self._move_nodes()
        room = len(self._groups) + len(self._nodes)
        return done and (spare == 0 or room <= 8 * (live + nodes) + 2 * _LITTLE)

    @property
    def held(self) -> int:
        """How many groups, terms of ordered multisets and members of sets are kept."""
        if self._held < 0:
            self._held = int(self._live().sum())
        nodes = int(self._head[ordered.USED]) - int(self._head[ordered.SPARE])
        return self._held + nodes + sum(map(len, self._sets.values()))

    @property
    def nbytes(self) -> int:
        """The memory of the tables."""
        arrays = self._table, self._groups, self._shown, self._nodes
        sets = sum(counts.nbytes for counts in self._sets.values())
        return sum(array.nbytes for array in arrays) + sets + 400 * len(self._exact) + self._order.nbytes


def _with_room(nodes: Ints, more: int) -> Ints:
    """A table of nodes with room for more, each in one cache line."""
    size = len(nodes) + more
    cells = np.zeros(size * _NODE + _LINE, np.int64)
    skipped = -(cells.ctypes.data // cells.itemsize) % _LINE
    table = cells[skipped : skipped + size * _NODE].reshape(size, _NODE)
    table[: len(nodes)] = nodes
    return table
