"""The co-group: inputs that meet by key. Joins, OPTIONAL, MINUS and EXISTS are co-groups with different rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.kernels import cogroup as kernel
from thalweg.operators.runs import in_time_order
from thalweg.operators.spans import Changes
from thalweg.operators.state import State

Ints = NDArray[np.int64]
RULES = {
    "rows": kernel.ROWS,
    "left": kernel.LEFT,
    "semi": kernel.SEMI,
    "anti": kernel.ANTI,
    "mark": kernel.MARK,
    "mark not": kernel.MARK_NOT,
    "outer": kernel.OUTER,
}
_FEW = 16
_LITTLE = 1024


def _slots(room: int) -> Ints:
    """An empty hash table that is at most two thirds full with so many rows."""
    size = 2 * _FEW
    while 2 * size < 3 * room:
        size *= 2
    return np.full(size, -1, np.int64)


class CoGroupRows:
    """Inputs by key: `widths` are the cells of their rows, the first `key` of which are the key.

    `booleans` are the ids of false and true, for marks. The result has the key, and then what inputs with the rules
    `rows`, `left` and `mark` add.
    """

    replayable = True
    linear = False

    def __init__(
        self, widths: Sequence[int], rules: Sequence[str], key: int, booleans: tuple[int, int] = (0, 0)
    ) -> None:
        self.key = key
        self._widths = list(widths)
        self._booleans = np.array(booleans, np.int64)
        self._definition = np.zeros((len(widths), 4), np.int64)
        place = key
        for number, (width, rule) in enumerate(zip(widths, rules, strict=True)):
            own = width - key if rule in ("rows", "left", "outer") else 0
            self._definition[number] = RULES[rule], own, place, 0 if rule == "outer" else own
            place += own if own or not rule.startswith("mark") else 1
        self.width = place
        if "outer" in rules and list(rules) != ["rows", "outer"]:
            raise ValueError("an outer input stands beside one input of rows")
        self._cells = int(self._definition[:, kernel.INPUT_CELLS].max())
        self._keeps = any(self._kept(number) for number in range(len(widths)))
        self._cursor = np.zeros(len(widths), np.int64)
        self._room = 256
        self._reset(_FEW, _FEW)

    def _reset(self, groups: int, entries: int) -> None:
        """Empties the tables, and makes room for so many groups and entries."""
        self._group_slots = _slots(groups)
        self._groups = np.empty((groups, kernel.GROUP_CELLS * len(self._widths) + self.key), np.int64)
        self._entry_slots = _slots(entries)
        self._entries = np.empty((entries, kernel.ENTRY_ROW + self._cells), np.int64)
        self._used = np.zeros(kernel.USED_CELLS, np.int64)
        self._used[[kernel.FREE_GROUP, kernel.FREE_ENTRY]] = -1

    def step(self, *inputs: Changes) -> Changes:
        """Takes changes of the inputs, each in time order; gives the netted changes of the product."""
        news = [(number, changes) for number, changes in enumerate(inputs) if len(changes)]
        if not news:
            return Changes.empty(self.width)
        if len(news) == 1:
            ((number, changes),) = news
            source = np.full(len(changes), number, np.int64)
            self._reserve(len(changes))
            return self._run(changes.time, changes.weight, source, self._padded(changes.rows))
        time = np.concatenate([changes.time for _, changes in news])
        weight = np.concatenate([changes.weight for _, changes in news])
        source = np.concatenate([np.full(len(changes), number, np.int64) for number, changes in news])
        cells = np.concatenate([self._padded(changes.rows) for _, changes in news])
        if not in_time_order(time):
            order = np.argsort(time, kind="stable")
            time, weight, source, cells = time[order], weight[order], source[order], cells[order]
        self._reserve(len(time))
        return self._run(time, weight, source, cells)

    def _padded(self, rows: Ints) -> Ints:
        """Rows with as many cells as the widest input keeps."""
        width = self.key + self._cells
        if rows.shape[1] == width:
            return np.ascontiguousarray(rows)
        cells = np.zeros((len(rows), width), np.int64)
        kept = min(width, rows.shape[1])
        cells[:, :kept] = rows[:, :kept]
        return cells

    def _run(self, time: Ints, weight: Ints, source: Ints, cells: Ints, *, emit: bool = True) -> Changes:
        """Takes changes, for which there is room."""
        parts: list[Changes] = []
        start, wanted = 0, 0
        while start < len(time):
            room = max(self._room, wanted)
            out = Changes(
                np.empty(room, np.int64), np.empty(room, np.int64), np.empty((room, self.width), np.int64)
            )
            start, written, wanted = kernel.step(
                time, weight, source, cells, self._definition, self.key, self._booleans,
                self._group_slots, self._groups, self._entry_slots, self._entries, self._used,
                out.time, out.weight, out.rows, self._cursor, emit, start,
            )  # fmt: skip
            if written:
                parts.append(out[:written])
            if start < len(time):
                self._room = min(4 * self._room, 1 << 16)
        return Changes.concat(parts, self.width).consolidated()

    def _sizes(self) -> tuple[int, int]:
        """How many groups and entries there are."""
        groups, entries, _, _, _, spare_groups, spare_entries = self._used.tolist()
        return groups - spare_groups, entries - spare_entries

    def _reserve(self, more: int) -> None:
        groups, entries = self._sizes()
        if groups + more > len(self._groups) or (self._keeps and entries + more > len(self._entries)):
            self._rebuild(more)

    def _rebuild(self, more: int) -> None:
        """Moves what is there to tables with room for half as much again, and for more."""
        content = [self._content(number) for number in range(len(self._widths))]
        groups, entries = (max(size + size // 2 + more, _FEW) for size in self._sizes())
        self._reset(groups, entries if self._keeps else _FEW)
        for number, (rows, counts) in enumerate(content):
            self._load(number, rows, counts)

    def _kept(self, number: int) -> bool:
        """Whether rows of an input are kept beyond their keys."""
        return int(self._definition[number, kernel.INPUT_KEPT]) > 0

    def _content(self, number: int) -> tuple[Ints, Ints]:
        """The rows of an input that are kept, and their counts."""
        start = kernel.GROUP_CELLS * len(self._widths)
        if not self._kept(number):
            used = int(self._used[kernel.USED_GROUPS])
            totals = self._groups[:used, kernel.GROUP_CELLS * number + kernel.GROUP_TOTAL]
            there = totals != 0
            return self._groups[:used, start:][there], totals[there]
        used = int(self._used[kernel.USED_ENTRIES])
        entries = self._entries[:used]
        owner = entries[:, kernel.ENTRY_TAG] & ((1 << kernel.TAG_INPUT) - 1)
        entries = entries[(owner == number) & (entries[:, kernel.ENTRY_COUNT] != 0)]
        keys = self._groups[entries[:, kernel.ENTRY_GROUP], start:]
        cells = entries[:, kernel.ENTRY_ROW : kernel.ENTRY_ROW + int(self._definition[number, 1])]
        return np.concatenate([keys, cells], axis=1), entries[:, kernel.ENTRY_COUNT].copy()

    def _load(self, number: int, rows: Ints, counts: Ints) -> None:
        if len(rows):
            none = np.zeros(len(rows), np.int64)
            self._run(none, counts, np.full(len(rows), number, np.int64), self._padded(rows), emit=False)

    def state(self) -> State:
        """The rows of each input, and their counts."""
        return {"inputs": [self._content(number) for number in range(len(self._widths))]}

    def restore(self, state: State) -> None:
        """Keeps what a saved one kept."""
        self._reset(_FEW, _FEW)
        for number, (rows, counts) in enumerate(state["inputs"]):
            self._reserve(len(rows))
            self._load(number, rows, counts)

    def live_ids(self) -> list[Ints]:
        """The term ids of the rows."""
        found = [self._content(number)[0].ravel() for number in range(len(self._widths))]
        return [*found, self._booleans]

    def clear(self) -> None:
        """Lets go of everything."""
        self._reset(_FEW, _FEW)

    def give_back(self, spare: int) -> bool:
        """Returns memory that the rows and `spare` more do not need; whether none is left to return."""
        rows = self.held
        if len(self._groups) + len(self._entries) > 16 * (rows + spare) + _LITTLE:
            self._rebuild(0)
        return spare == 0 or len(self._groups) + len(self._entries) <= 16 * rows + _LITTLE

    @property
    def held(self) -> int:
        """How many keys and rows of inputs are kept."""
        return int(self._used[kernel.LIVE])

    @property
    def nbytes(self) -> int:
        """The memory of keys and rows."""
        arrays = self._group_slots, self._groups, self._entry_slots, self._entries
        return sum(array.nbytes for array in arrays)
