"""The shared buffer: runs of a sequence as nodes with shared lists of what came before, by one kernel call a batch.

It stands for the same rows as the pool (`operators.sequence_pool`), where runs differ only by values that are compared
(`plan.shared_runs`). Rows are written out when they are matches, or when joins of whole batches take the runs over.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.sequences import Sequence
from thalweg.kernels import sequence_buffer as kernel
from thalweg.kernels import sequence_steps as steps
from thalweg.kernels.conditions import GROUPS, NUMBER
from thalweg.kernels.times import NO_TIME
from thalweg.operators.sequence_events import Solutions
from thalweg.operators.sequence_pool import Inputs, Tables, larger, needs_of, table
from thalweg.operators.sequence_shedding import Shedding
from thalweg.operators.state import State as Saved
from thalweg.plan.automaton import BEGIN, Automaton
from thalweg.plan.shared_runs import MOST_CONDITIONS, entries_of, join_variables, not_shared
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_SMALL, _MOST_ROOM = 1 << 10, 1 << 13
_FLIPPED = {
    steps.LESS: steps.GREATER,
    steps.GREATER: steps.LESS,
    steps.AT_MOST: steps.AT_LEAST,
    steps.AT_LEAST: steps.AT_MOST,
}
_LOWER = (steps.LESS, steps.AT_MOST)
_UPPER = (steps.GREATER, steps.AT_LEAST)


class Buffer:
    """Runs in the form of the kernel."""

    def __init__(
        self,
        sequence: Sequence,
        automaton: Automaton,
        places: Mapping[str, int],
        width: int,
        arena: Arena,
        shedding: Shedding,
    ) -> None:
        self._sequence, self._arena, self._width, self._shedding = sequence, arena, width, shedding
        tables = Tables(sequence, automaton, places, arena)
        self.fits = tables.fits and not_shared(sequence, automaton) is None
        """Whether the kernel can take this sequence."""
        if not self.fits:
            return
        self.inputs = Inputs(sequence, automaton, arena)
        self._columns = {name: places[name] for name in tables.slots}
        self._slots = tables.slots
        self._tables = self._compiled(automaton, tables, places)
        depth = 2 * len(automaton.states) + 4
        self._frames, self._path = np.empty((depth, 5), np.int64), np.empty((depth, 3), np.int64)
        self._lefts = np.empty(MOST_CONDITIONS + 1, np.float64)
        self.steps = 0
        """How many nodes and cells were visited, as a measure of work."""
        self.clear()

    def _compiled(
        self, automaton: Automaton, tables: Tables, places: Mapping[str, int]
    ) -> tuple[NDArray[np.int64] | NDArray[np.float64] | NDArray[np.bool_], ...]:
        """The automaton as tables of numbers."""
        sequence, names = self._sequence, self.inputs.names
        joined = sorted(join_variables(sequence, automaton))
        atoms = [sequence.atom(state.use) for state in automaton.states]
        binds = np.zeros((len(atoms) + 1, max(1, len(tables.slots))), np.bool_)
        for number, atom in enumerate(atoms):
            for name, slot in tables.slots.items():
                binds[number, slot] = name in atom.possible
        conditions: list[list[int]] = []
        own_conditions: list[list[int]] = []
        edges: list[list[int]] = []
        far: list[
            list[tuple[int, int]]
        ] = []  # comparisons and slots that are not those of the parent, by edge
        for made in tables.edges:
            row = [0] * kernel.EDGE_WIDTH
            row[kernel.PARENT], row[kernel.OP] = made[steps.PARENT], made[steps.OP]
            row[kernel.FIRST_OWN], row[kernel.FIRST_RUN] = len(own_conditions), len(conditions)
            behind = []
            for one in tables.conditions[made[steps.FIRST_CONDITION] : made[steps.LAST_CONDITION]]:
                op, left, right = one[0], one[1:5], one[5:9]
                if steps.RUN not in (left[0], right[0]):
                    own_conditions.append([op, *left[:2], *right[:2]])
                    continue
                if left[0] == steps.RUN:
                    op, left, right = _FLIPPED.get(op, op), right, left
                conditions.append([op, left[0] != steps.FIXED, left[1], *right[2:4]])
                if not binds[made[steps.PARENT], right[3]]:
                    behind.append((op, right[3]))
            row[kernel.LAST_OWN], row[kernel.LAST_RUN] = len(own_conditions), len(conditions)
            row[kernel.FIRST_CLEAR], row[kernel.LAST_CLEAR] = made[steps.FIRST_CLEAR], made[steps.LAST_CLEAR]
            edges.append(row)
            far.append(behind)
        sorts: dict[int, tuple[int, bool]] = {}
        needs = needs_of(automaton, sequence)
        accepting = {acceptance.state for acceptance in automaton.acceptances}
        out: list[set[bool]] = [set() for _ in automaton.states]
        for number, state in enumerate(automaton.states):
            for row, edge in zip(edges[slice(*tables.ranges[number])], state.edges, strict=True):
                if edge.parent != BEGIN:
                    out[edge.parent].add(row[kernel.OP] == steps.SAME)
        states = []
        for number, state in enumerate(automaton.states):
            first, last = tables.ranges[number]
            repeats = any(edge.again for edge in state.edges)
            for place, edge in zip(range(first, last), state.edges, strict=True):
                row = edges[place]
                row[kernel.AGAIN] = edge.again
                row[kernel.SHARES] = (
                    not edge.again
                    and row[kernel.OP] == steps.LATER
                    and row[kernel.FIRST_RUN] == row[kernel.LAST_RUN]
                )
                if edge.again and edge.parent == number:
                    sort = self._order(automaton, number, far[place], binds)
                    if sort is not None:
                        sorts[number] = sort
                        row[kernel.POPS] = all(
                            slot == sort[0] and op in (_UPPER if sort[1] else _LOWER)
                            for op, slot in far[place]
                        )
            slot, descends = sorts.get(number, (-1, False))
            states.append(
                [
                    names.index(atoms[number].name),
                    False in out[number],
                    True in out[number],
                    number in accepting,
                    first,
                    last,
                    needs[number],
                    max((edge.mark for edge in state.edges), default=-1),
                    repeats,
                    slot,
                    descends,
                ]
            )
        states.append([0, 0, 0, 0, 0, 0, steps.NOTHING, -1, 0, -1, 0])  # that of nodes without values
        own: list[int] = []
        own_ranges = [0]
        for atom in atoms:
            own += [places[name] for name in atom.possible if name in places and name not in joined]
            own_ranges.append(len(own))
        own_ranges.append(len(own))
        bind_places, bind_ranges, keys = [], [0], []
        for name in names:
            atom = next(atom for atom in atoms if atom.name == name)
            bind_places += [
                (place, places[one], tables.slots.get(one, -1))
                for place, one in enumerate(atom.possible)
                if one in places
            ]
            bind_ranges.append(len(bind_places))
            keys.append([atom.possible.index(one) for one in joined])
        return (
            table(states, kernel.STATE_WIDTH),
            table(edges, kernel.EDGE_WIDTH),
            table(conditions, kernel.CONDITION_WIDTH),
            table(own_conditions, 5),
            np.array(tables.constants, np.float64),
            np.array(tables.clears, np.int64),
            binds,
            np.array(own, np.int64),
            np.array(own_ranges, np.int64),
            np.array(keys, np.int64).reshape(len(names), len(joined)),
            np.array([places[name] for name in joined], np.int64),
            table(bind_places, 3),
            np.array(bind_ranges, np.int64),
        )

    def _order(
        self, automaton: Automaton, number: int, far: list[tuple[int, int]], binds: NDArray[np.bool_]
    ) -> tuple[int, bool] | None:
        """The slot by which lists of a repetition are in order, and whether it descends; None: by none.

        Every way into the repetition has to ask the same of a value that the node before has.
        """
        if {edge.parent for edge in automaton.states[number].edges if edge.again} != {number}:
            return None
        for op, slot in far:
            bound = all(parent == BEGIN or binds[parent, slot] for parent in entries_of(automaton, number))
            if bound and op in (*_LOWER, *_UPPER):
                return slot, op in _UPPER
        return None

    def clear(self) -> None:
        """Lets go of all runs."""
        size = 2
        while size < min(_SMALL, self._shedding.limit):
            size *= 2
        self._rows = np.zeros((size, self._width + 1), np.int64)
        self._numbers = np.zeros((size, len(self._slots)), np.float64)
        self._links = np.full((size, kernel.LINKS), -1, np.int32)
        self._cells = np.empty((2 * size, kernel.CELL_WIDTH), np.int64)
        self._heads = np.full((2, size), -1, np.int64)
        self._temp = np.empty(2 * size + 2, np.int64)
        self._nodes = self._many = 0
        self._floor = self._oldest = NO_TIME
        self._matches = np.empty((_SMALL, self._width + 1), np.int64)
        self._usual = 0

    @property
    def count(self) -> int:
        """How many nodes and cells there are."""
        return self._nodes + self._many

    def step(
        self,
        instants: Ints,
        before: tuple[int, int],
        found: Mapping[str, Solutions],
        numbers: list[Floats],
        previous: list[Ints] | None,
        others: int = 0,
    ) -> Ints:
        """Takes the instants of a batch, as the pool does it; answers the runs that came to accepting states."""
        meta = np.array([self._nodes, 0, 0, *before, self._many, 0, 0], np.int64)
        inputs = self.inputs.arrays(found, numbers, previous)
        crowded = -1  # the instant for which room was made last
        if self._usual > len(self._matches):
            self._matches = np.empty((self._usual, self._width + 1), np.int64)
        while True:
            taken = kernel.take_instants(
                *self._tables,
                instants,
                *inputs,
                self._rows,
                self._numbers,
                self._links,
                self._cells,
                self._heads,
                self._matches,
                self._temp,
                self._frames,
                self._path,
                self._lefts,
                meta,
                self._sequence.within,
                self._floor,
            )
            self._nodes, self._many = int(meta[kernel.NODES]), int(meta[kernel.CELLS])
            matched = int(meta[kernel.MATCHES])
            if taken == len(instants):
                break
            if meta[kernel.SHORT]:
                self._matches = larger(self._matches, 2 * len(self._matches))
                self._heads[1] = -1  # what was entered for the instant that is begun again
                continue
            latest = int(meta[kernel.LAST])
            self.keep(int(instants[taken]) - self._sequence.within, latest)
            self._shed(others, crowded == taken, latest)
            if 8 * self._nodes > 5 * len(self._rows) or crowded == taken:
                self._grow(2 * len(self._rows), latest)
            if 8 * self._many > 5 * len(self._cells) or crowded == taken:
                self._cells = larger(self._cells, 2 * len(self._cells))
                self._temp = np.empty(len(self._cells) + 2, np.int64)
            meta[kernel.NODES], meta[kernel.CELLS] = self._nodes, self._many
            crowded = taken
        self.steps += int(meta[kernel.STEPS])
        made = self._matches[:matched]
        self._usual = matched + matched // 4  # what the next batch may need
        if len(self._matches) > _MOST_ROOM:  # the matches of a large batch would be far more than all runs
            self._matches = np.empty((_SMALL, self._width + 1), np.int64)
        if self._shedding.is_over(self.count + others):
            latest = int(instants[-1])
            self.keep(latest - self._sequence.within, latest)
            self._shed(others, False, latest)
        return made

    def _shed(self, others: int, crowded: bool, latest: int) -> None:
        """Drops the oldest of too many nodes; `others` are not here, and count."""
        limit = self._shedding.limit
        if crowded and len(self._rows) + len(self._cells) > 4 * limit + _SMALL:
            most = self._nodes // 2  # one instant needs too many: there have to be fewer for it to extend
        elif self._shedding.is_over(self.count + others):
            # Cells go with their nodes.
            most = self._nodes * max(3 * limit // 4 - others, 0) // max(self.count, 1)
        else:
            return
        firsts = np.sort(self._rows[: self._nodes, 0])
        gone = self._nodes - most
        if gone <= 0:
            return
        before = self._count_runs(latest)
        self._floor = int(firsts[gone - 1]) + 1
        self.keep(self._floor, latest)
        self._shedding.note(before - self._count_runs(latest), int(firsts[0]), self._floor - 1)

    def keep(self, oldest: int, latest: int) -> None:
        """Lets go of what no event can extend any more."""
        self._oldest = max(oldest, self._floor)
        self._nodes, self._many = kernel.put_together(
            self._rows,
            self._numbers,
            self._links,
            self._cells,
            self._heads,
            self._nodes,
            self._many,
            self._tables[0],
            self._tables[10],
            self._oldest,
            latest,
        )

    def _grow(self, size: int, latest: int) -> None:
        self._rows, self._numbers = larger(self._rows, size), larger(self._numbers, size)
        self._links = larger(self._links, size)
        self._heads = np.full((2, size), -1, np.int64)
        self.keep(NO_TIME, latest)  # nodes are found by their values again

    # Runs as rows

    def runs(self, oldest: int, latest: int) -> Ints:
        """All runs that can still be extended, each with its state in the last column.

        Where they are more than the limit, those that began last.
        """
        self.keep(oldest, latest)
        limit = self._shedding.limit
        meta = np.zeros(kernel.META, np.int64)
        found = np.empty((_SMALL, self._width + 1), np.int64)
        while True:
            many, full = 0, False
            for node in np.flatnonzero(self._links[: self._nodes, kernel.LATER_CELL] >= 0).tolist():
                added = kernel.enumerate_runs(
                    self._rows,
                    self._numbers,
                    self._links,
                    self._cells,
                    self._tables[0],
                    self._tables[6],
                    self._tables[2],
                    self._lefts,
                    self._tables[7],
                    self._tables[8],
                    node,
                    self._oldest,
                    self._path,
                    found,
                    many,
                    meta,
                )
                if added < 0:
                    many, full = len(found), True
                    break
                many = added
            if not full:
                return found[:many]
            if many <= limit:
                found = np.empty((2 * len(found), self._width + 1), np.int64)
                continue
            kept = self._shedding.youngest_of(found, limit // 2)
            self._floor = int(found[~kept, 0].max()) + 1
            self.keep(oldest, latest)

    def held(self, oldest: int, latest: int) -> int:
        """How many runs there are that can still be extended."""
        self.keep(oldest, latest)
        return self._count_runs(latest)

    def _count_runs(self, latest: int) -> int:
        return int(
            kernel.count_runs(
                self._rows,
                self._links,
                self._cells,
                self._nodes,
                self._many,
                self._tables[0],
                self._oldest,
                latest,
            )
        )

    def load(self, runs: list[Ints]) -> bool:
        """Takes runs of all states; False: something to be compared is no number."""
        states = np.repeat(np.arange(len(runs)), list(map(len, runs)))
        rows = np.concatenate([np.concatenate(runs), states[:, None]], axis=1)
        rows = rows[np.argsort(rows[:, 1], kind="stable")]
        many = np.arange(len(rows))
        links = np.full((len(rows), kernel.LINKS), -1, np.int32)
        links[:, kernel.LATER_CELL], links[:, kernel.STAMP] = many, 0
        cells = np.stack([many, np.full(len(rows), -1), rows[:, 0]], axis=1)
        return self._fill(rows, links, cells)

    def _fill(self, rows: Ints, links: NDArray[np.int32], cells: Ints) -> bool:
        numbers = np.zeros((len(rows), len(self._slots)), np.float64)
        for name, slot in self._slots.items():
            ids = np.ascontiguousarray(rows[:, self._columns[name]])
            kinds, numbers[:, slot] = self._arena.numbers(ids)
            if ((GROUPS[kinds] != NUMBER) & (ids != 0)).any():
                return False
        floor = self._floor
        self.clear()
        self._floor = floor
        size = len(self._rows)
        while size < 2 * max(len(rows), len(cells)):
            size *= 2
        self._rows, self._numbers = larger(self._rows, size), larger(self._numbers, size)
        self._links, self._cells = larger(self._links, size), larger(self._cells, 2 * size)
        self._temp, self._heads = np.empty(2 * size + 2, np.int64), np.full((2, size), -1, np.int64)
        self._nodes, self._many = len(rows), len(cells)
        self._rows[: len(rows)], self._numbers[: len(rows)] = rows, numbers
        self._links[: len(rows)], self._cells[: len(cells)] = links, cells
        # Of states that only the next instant can extend, there are the runs of the last one alone.
        by_last = self._tables[0][rows[:, -1], kernel.KEEP] == steps.LATEST
        self.keep(NO_TIME, int(rows[by_last & (links[:, kernel.LATER_CELL] >= 0), 1].max(initial=NO_TIME)))
        return True

    # Memory and saving

    def live_ids(self, columns: list[int]) -> Ints:
        """The term ids in some columns of all nodes."""
        return self._rows[: self._nodes, columns].ravel()

    @property
    def nbytes(self) -> int:
        """The memory of the buffer."""
        arrays = (self._rows, self._numbers, self._links, self._cells, self._heads, self._temp, self._matches)
        return sum(array.nbytes for array in arrays)

    def state(self) -> Saved:
        """Nodes and cells."""
        return {
            "rows": self._rows[: self._nodes].copy(),
            "links": self._links[: self._nodes].copy(),
            "cells": self._cells[: self._many].copy(),
            "floor": self._floor,
        }

    def restore(self, state: Saved) -> None:
        """Goes on where a saved buffer was."""
        self._floor = state["floor"]
        found = self._fill(*(np.array(state[name]) for name in ("rows", "links", "cells")))
        assert found, "what is compared was a number when it was saved"
