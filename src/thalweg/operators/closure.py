"""The closure: pairs of terms that one or more steps connect. Property paths with `+` and `*` are closures."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import LimitError
from thalweg.kernels import closure as kernel
from thalweg.operators.runs import in_time_order
from thalweg.operators.spans import Changes
from thalweg.operators.state import State
from thalweg.options import LIMITS

Ints = NDArray[np.int64]
Cells = NDArray[np.int32]
_Int = TypeVar("_Int", np.int32, np.int64)
_FEW = 16
_LITTLE = 1024
_MOST_ROOM = 1 << 16


def _slots(room: int) -> Cells:
    """An empty hash table that is at most two thirds full with so many rows."""
    size = 2 * _FEW
    while 2 * size < 3 * room:
        size *= 2
    return np.full(size, -1, np.int32)


def _enlarged(table: NDArray[_Int], rows: int) -> NDArray[_Int]:
    grown = np.empty((rows, *table.shape[1:]), table.dtype)
    grown[: len(table)] = table
    return grown


class ClosureRows:
    """The pairs (root, node) for which steps lead from the root to the node.

    A step is a row of the event's cells (`lead` many) and two terms. Roots are all nodes; with `root`, the id of one
    term; with `asked`, the terms of a second input. With `target`, an id, other nodes are not reported. `proper` leaves
    out the ways from a node back to itself. `keeps` are the cells of (event, root, node) that a row has.
    """

    replayable = True
    linear = False

    def __init__(
        self,
        lead: int = 0,
        *,
        root: int = 0,
        target: int = 0,
        asked: bool = False,
        proper: bool = False,
        keeps: tuple[int, ...] | None = None,
        most: int = LIMITS.path_pairs,
    ) -> None:
        self._lead = lead
        self._asked = asked
        self._keeps = list(range(lead + 2) if keeps is None else keeps)
        self.width = len(self._keeps)
        self._constants = np.array([one for one in (root, target) if one], np.int64)
        self._definition = np.zeros(kernel.DEFINITION, np.int64)
        rooted = kernel.ASKED_NODES if asked else kernel.ONE_NODE if root else kernel.EVERY_NODE
        self._definition[:] = lead, rooted, root, target, proper, most
        self._most = most
        self._reset()

    def _reset(self) -> None:
        self._keys: Ints = np.empty((_FEW, self._lead + 1), np.int64)
        self._nodes = np.empty((_FEW, kernel.NODE_CELLS), np.int32)
        self._edges = np.empty((_FEW, kernel.EDGE_CELLS), np.int32)
        self._entries = np.empty((_FEW, kernel.ENTRY_CELLS), np.int32)
        self._queue, self._found = np.empty(_FEW, np.int32), np.empty(_FEW, np.int32)
        self._node_slots, self._edge_slots, self._entry_slots = _slots(_FEW), _slots(_FEW), _slots(_FEW)
        self._marks = np.zeros(kernel.MARKS, np.int64)
        self._marks[[kernel.FREE_NODE, kernel.FREE_EDGE, kernel.FREE_ENTRY]] = -1
        self._room = 256

    def step(self, *inputs: Changes) -> Changes:
        """Takes changes of steps, and of the roots that are asked for; gives the netted changes of the pairs."""
        parts = [(number, changes.consolidated()) for number, changes in enumerate(inputs) if len(changes)]
        if not parts:
            return Changes.empty(self.width)
        time = np.concatenate([changes.time for _, changes in parts])
        weight = np.concatenate([changes.weight for _, changes in parts])
        source = np.concatenate([np.full(len(changes), number, np.int64) for number, changes in parts])
        cells = np.concatenate([self._padded(changes.rows) for _, changes in parts])
        if not in_time_order(time):
            order = np.argsort(time, kind="stable")
            time, weight, source, cells = time[order], weight[order], source[order], cells[order]
        return self._run(time, weight, source, cells)

    def _padded(self, rows: Ints) -> Ints:
        """Rows of roots with as many cells as steps have."""
        width = self._lead + 2
        if rows.shape[1] == width:
            return np.ascontiguousarray(rows)
        cells = np.zeros((len(rows), width), np.int64)
        cells[:, : rows.shape[1]] = rows
        return cells

    def _run(self, time: Ints, weight: Ints, source: Ints, cells: Ints) -> Changes:
        self._reserve(len(time))
        self._marks[kernel.PHASE :] = 0
        todo = np.empty((len(time), 3), np.int32)
        parts: list[Changes] = []
        lacking = kernel.NEEDS_OUTPUT
        while lacking != kernel.DONE:
            out = Changes(
                np.empty(self._room, np.int64),
                np.empty(self._room, np.int64),
                np.empty((self._room, self._lead + 2), np.int64),
            )
            lacking, written = kernel.step(
                time, weight, source, cells, self._definition, self._marks, todo,
                self._node_slots, self._keys, self._nodes, self._edge_slots, self._edges,
                self._entry_slots, self._entries, self._queue, self._found,
                out.time, out.weight, out.rows,
            )  # fmt: skip
            if written:
                parts.append(out[:written])
            if lacking == kernel.NEEDS_ENTRIES:
                self._enlarge_entries()
            elif lacking == kernel.NEEDS_OUTPUT:
                self._room = min(4 * self._room, _MOST_ROOM)
            elif lacking == kernel.TOO_MANY:
                raise LimitError(
                    f"a path with + or * connects more than {self._most:,} pairs of terms: begin or end it with a "
                    "constant, make the window smaller, or raise max_path_pairs"
                )
        made = Changes.concat(parts, self._lead + 2).consolidated()
        if self.width == self._lead + 2:
            return made
        return Changes(made.time, made.weight, np.ascontiguousarray(made.rows[:, self._keeps]))

    def _reserve(self, more: int) -> None:
        """Makes room for the nodes and edges of so many changes."""
        marks = self._marks
        if marks[kernel.LIVE_NODES] + 2 * more > len(self._nodes):
            rows = int(marks[kernel.LIVE_NODES]) * 3 // 2 + 2 * more
            self._nodes, self._keys = _enlarged(self._nodes, rows), _enlarged(self._keys, rows)
            self._node_slots = _slots(rows)
            kernel.index_nodes(self._node_slots, self._keys, self._nodes, marks[kernel.USED_NODES])
        if marks[kernel.LIVE_EDGES] + more > len(self._edges):
            rows = int(marks[kernel.LIVE_EDGES]) * 3 // 2 + more
            self._edges, self._edge_slots = _enlarged(self._edges, rows), _slots(rows)
            kernel.index(self._edge_slots, self._edges, marks[kernel.USED_EDGES])

    def _enlarge_entries(self) -> None:
        rows = 2 * len(self._entries)
        self._entries, self._entry_slots = _enlarged(self._entries, rows), _slots(rows)
        self._queue = _enlarged(self._queue, rows)
        self._found = np.empty(rows, np.int32)
        kernel.index_entries(self._entry_slots, self._entries, self._marks[kernel.USED_ENTRIES])

    def _content(self) -> tuple[Ints, Ints]:
        """The steps, and how often each is there."""
        edges = self._edges[: self._marks[kernel.USED_EDGES]]
        edges = edges[edges[:, kernel.EDGE_FROM] >= 0]
        begin, end = self._keys[edges[:, kernel.EDGE_FROM]], self._keys[edges[:, kernel.EDGE_TO]]
        low, high = (edges[:, cell].astype(np.int64) for cell in (kernel.EDGE_COUNT, kernel.EDGE_MORE))
        return np.concatenate([begin, end[:, -1:]], axis=1), high << 32 | low & 0xFFFF_FFFF

    def _asked_roots(self) -> tuple[Ints, Ints]:
        """The roots that are asked for, and how often each is."""
        used = self._marks[kernel.USED_NODES]
        asked = self._nodes[:used, kernel.NODE_ASKED].astype(np.int64)
        there = (self._nodes[:used, kernel.NODE_USES] > 0) & (asked != 0)
        return self._keys[:used][there], asked[there]

    def state(self) -> State:
        """Steps and roots: the pairs follow from them."""
        return {"steps": self._content(), "roots": self._asked_roots()}

    def restore(self, state: State) -> None:
        """Keeps what a saved one kept."""
        self._reset()
        for number, (rows, counts) in enumerate((state["steps"], state["roots"])):
            if len(rows):
                none = np.zeros(len(rows), np.int64)
                self._run(none, counts, none + number, self._padded(rows))

    def live_ids(self) -> list[Ints]:
        """The term ids of nodes."""
        used = self._marks[kernel.USED_NODES]
        there = self._nodes[:used, kernel.NODE_USES] >= 0
        return [self._keys[:used][there].ravel(), self._constants]

    def clear(self) -> None:
        """Lets go of everything."""
        self._reset()

    def give_back(self, spare: int) -> bool:
        """Returns memory that what is kept and `spare` more rows do not need; whether none is left to return."""
        if self._rows_of_room > 16 * (self.held + spare) + _LITTLE:
            self.restore(self.state())
        return spare == 0 or self._rows_of_room <= 16 * self.held + _LITTLE

    @property
    def _rows_of_room(self) -> int:
        return len(self._nodes) + len(self._edges) + len(self._entries)

    @property
    def held(self) -> int:
        """How many steps and pairs are kept."""
        return int(self._marks[kernel.LIVE_EDGES] + self._marks[kernel.PAIRS] + self._marks[kernel.ROOTS])

    @property
    def nbytes(self) -> int:
        """The memory of steps and pairs."""
        tables = self._keys, self._nodes, self._edges, self._entries, self._queue, self._found
        slots = self._node_slots, self._edge_slots, self._entry_slots
        return sum(array.nbytes for array in (*tables, *slots))
