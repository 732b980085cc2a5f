"""The pool: runs of a sequence whose conditions are comparisons of numbers, extended by one kernel call a batch.

It holds the same rows as `SequenceRuns`, in the form that `kernels.sequence_steps` works on: its plan is the automaton
as tables of numbers. Where a batch brings a value to a comparison that is no number, `SequenceRuns` takes the rows back
and goes on with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.expressions import Constant, Variable
from thalweg.algebra.sequences import AT_ONCE, IMMEDIATELY, PREVIOUS, Sequence, function_name
from thalweg.kernels import sequence_steps as kernel
from thalweg.kernels.conditions import GROUPS, NUMBER
from thalweg.operators.sequence_events import Solutions
from thalweg.operators.sequence_shedding import Shedding
from thalweg.plan.automaton import BEGIN, WITH_ONE_BETWEEN, Automaton, Edge, State, shared_by
from thalweg.plan.comparisons import comparisons_of
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_COMPARISONS = {
    "=": kernel.EQUAL,
    "!=": kernel.UNEQUAL,
    "<": kernel.LESS,
    ">": kernel.GREATER,
    "<=": kernel.AT_MOST,
    ">=": kernel.AT_LEAST,
}
_OPERATORS = {
    IMMEDIATELY: kernel.NEXT,
    AT_ONCE: kernel.SAME,
    WITH_ONE_BETWEEN: kernel.NEXT_BUT_ONE,
}
_SMALL, _MOST_ROOM = 1 << 10, 1 << 13


def needs_of(automaton: Automaton, sequence: Sequence) -> list[int]:
    """For each state which of its runs later events can extend."""
    found = [kernel.NOTHING] * len(automaton.states)
    for state in automaton.states:
        for edge in state.edges:
            if edge.parent != BEGIN and edge.op != AT_ONCE:
                by_last = edge.op == IMMEDIATELY and sequence.partition is None
                found[edge.parent] = max(found[edge.parent], kernel.LATEST if by_last else kernel.ALL)
    return found


class Tables:
    """The automaton as tables of numbers."""

    def __init__(
        self, sequence: Sequence, automaton: Automaton, places: Mapping[str, int], arena: Arena
    ) -> None:
        self.sequence, self.automaton, self.places, self.arena = sequence, automaton, places, arena
        self.possible = self._possible()
        self.slots: dict[str, int] = {}
        """The variables that runs keep the numbers of."""
        self.indexes: dict[tuple[int, bool, tuple[str, ...]], int] = {}
        self.checks: list[tuple[int, int]] = []
        self.conditions: list[list[int]] = []
        self.constants: list[float] = []
        self.clears: list[int] = []
        self.edge_keys: list[int] = []
        self.edges: list[list[int]] = []
        self.ranges: list[tuple[int, int]] = []
        self.fits = True
        for number, state in enumerate(automaton.states):
            first = len(self.edges)
            for edge in state.edges:
                self._edge(number, state, edge)
            self.ranges.append((first, len(self.edges)))

    def _possible(self) -> list[frozenset[str]]:
        """For each state the variables that its runs may have bound."""
        states = self.automaton.states
        found = [frozenset(self.sequence.atom(state.use).possible) for state in states]
        changed = True
        while changed:
            changed = False
            for number, state in enumerate(states):
                for edge in state.edges:
                    if edge.parent != BEGIN and not found[edge.parent] <= found[number]:
                        found[number] |= found[edge.parent]
                        changed = True
        return found

    def _edge(self, number: int, state: State, edge: Edge) -> None:
        atom = self.sequence.atom(state.use)
        cleared = state.renewed if edge.again and state.begins else frozenset[str]()
        before = self.possible[edge.parent] - cleared if edge.parent != BEGIN else frozenset[str]()
        row = [0] * kernel.EDGE_WIDTH
        row[kernel.PARENT], row[kernel.MARK] = edge.parent, edge.mark
        row[kernel.OP] = _OPERATORS.get(edge.op, kernel.LATER)
        row[kernel.FIRST_CHECK] = len(self.checks)
        self.checks += [
            (place, self.places[name])
            for place, name in enumerate(atom.possible)
            if name in before and name in self.places
        ]
        row[kernel.LAST_CHECK] = len(self.checks)
        row[kernel.FIRST_CLEAR] = len(self.clears)
        self.clears += [self.places[name] for name in sorted(cleared) if name in self.places]
        row[kernel.LAST_CLEAR] = len(self.clears)
        row[kernel.FIRST_CONDITION] = len(self.conditions)
        for condition in atom.conditions:
            found = comparisons_of(condition.expression)
            if found is None:
                self.fits = False
                return
            names = [side.name for one in found for side in one.sides if isinstance(side, Variable)]
            if any(name.startswith(f"{PREVIOUS}(") for name in names):
                if not state.begins:
                    self.fits = False
                    return
                if not edge.again:  # a condition with PREV holds in the first iteration
                    continue
            for one in found:
                sides = [self._operand(side, atom.possible, atom.certain, before) for side in one.sides]
                self.conditions.append([_COMPARISONS[one.op], *sides[0], *sides[1]])
        row[kernel.LAST_CONDITION] = len(self.conditions)
        row[kernel.FIRST_KEY] = len(self.edge_keys)
        if edge.parent != BEGIN:
            common = shared_by(self.sequence, self.automaton, state, edge)
            keys = tuple(name for name in common if name in self.places)
            index = (edge.parent, edge.op == AT_ONCE, keys)
            row[kernel.INDEX] = self.indexes.setdefault(index, len(self.indexes))
            self.edge_keys += [atom.possible.index(name) for name in keys]
        self.edges.append(row)

    def _operand(
        self,
        side: Variable | Constant,
        own: tuple[str, ...],
        certain: frozenset[str],
        before: frozenset[str],
    ) -> tuple[int, int, int, int]:
        if isinstance(side, Constant):
            kinds, numbers = self.arena.numbers(np.array([self.arena.intern(side.value.text.encode())]))
            self.fits = self.fits and GROUPS[kinds[0]] == NUMBER
            self.constants.append(float(numbers[0]))
            return kernel.FIXED, len(self.constants) - 1, 0, 0
        name = side.name
        function, _, inner = name.partition("(")
        if inner:
            # Of all functions of repetitions only PREV is a copy of a value that the run has.
            self.fits = self.fits and function == PREVIOUS
            name = inner.removesuffix(")")
            own, before = (), before | {name}
        place = own.index(name) if name in own else 0
        if name in certain and name in own:
            return kernel.EVENT, place, 0, 0
        if name not in before:
            return kernel.EVENT if name in own else kernel.UNBOUND, place, 0, 0
        return kernel.EITHER if name in own else kernel.RUN, place, self.places[name], self._slot(name)

    def _slot(self, name: str) -> int:
        return self.slots.setdefault(name, len(self.slots))


class Inputs:
    """The solutions of the atoms that lead into states, as a kernel takes them."""

    def __init__(self, sequence: Sequence, automaton: Automaton, arena: Arena) -> None:
        self._arena = arena
        atoms = {atom.name: atom for atom in (sequence.atom(state.use) for state in automaton.states)}
        self.names = list(atoms)
        """The atoms."""
        compared = {
            name
            for atom in sequence.atoms
            for condition in atom.conditions
            for one in comparisons_of(condition.expression) or ()
            for name in (side.name for side in one.sides if isinstance(side, Variable))
        }
        self._numeric = [
            [
                place
                for place, one in enumerate(atom.possible)
                if one in compared or function_name(PREVIOUS, one) in compared
            ]
            for atom in atoms.values()
        ]
        """For each atom the places of the variables that comparisons use."""
        self._width = max(len(atom.possible) for atom in atoms.values())

    def numbers(self, found: Mapping[str, Solutions]) -> list[Floats] | None:
        """The numbers of the solutions of each atom; None: something to be compared is no number."""
        made = []
        for name, compared in zip(self.names, self._numeric, strict=True):
            rows = found[name].rows
            numbers = np.empty((len(rows), self._width), np.float64)
            for place in compared:
                ids = np.ascontiguousarray(rows[:, place])
                kinds, numbers[:, place] = self._arena.numbers(ids)
                if ((GROUPS[kinds] != NUMBER) & (ids != 0)).any():
                    return None
            made.append(numbers)
        return made

    def arrays(
        self, found: Mapping[str, Solutions], numbers: list[Floats], previous: list[Ints] | None
    ) -> tuple[Ints, Ints, Ints, Ints, Floats, Ints]:
        """Where the solutions of each atom begin and end; their times, values and numbers; the instants before them."""
        chosen = [found[name] for name in self.names]
        ends = np.cumsum([len(one) for one in chosen])
        starts = ends - [len(one) for one in chosen]
        events = np.empty((int(ends[-1]), self._width), np.int64)
        for place, one in enumerate(chosen):
            events[starts[place] : ends[place], : one.rows.shape[1]] = one.rows
        return (
            starts,
            ends,
            np.concatenate([one.times for one in chosen]),
            events,
            np.concatenate(numbers),
            np.empty((0, 2), np.int64) if previous is None else np.concatenate(previous),
        )


class Pool:
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
        self.fits = tables.fits
        """Whether the kernel can take this sequence."""
        if not self.fits:
            return
        self.inputs = Inputs(sequence, automaton, arena)
        atoms, names = [sequence.atom(state.use) for state in automaton.states], self.inputs.names
        self._columns = {name: places[name] for name in tables.slots}
        self._slots = tables.slots
        by_state: list[list[int]] = [[] for _ in automaton.states]
        indexes: list[list[int]] = []
        columns: list[int] = []
        for (state, at_once, keys), number in tables.indexes.items():
            by_state[state].append(number)
            indexes.append([state, at_once, len(columns), len(columns) + len(keys)])
            columns += [places[name] for name in keys]
        for edge in tables.edges:
            if edge[kernel.PARENT] >= 0:
                edge[kernel.LINK] = by_state[edge[kernel.PARENT]].index(edge[kernel.INDEX])
        needs = needs_of(automaton, sequence)
        accepting = {acceptance.state for acceptance in automaton.acceptances}
        states: list[list[int]] = []
        state_indexes: list[int] = []
        for number, atom in enumerate(atoms):
            first = len(state_indexes)
            state_indexes += by_state[number]
            states.append(
                [
                    names.index(atom.name),
                    max((1 + indexes[index][kernel.AT_ONCE_ONLY] for index in by_state[number]), default=0),
                    number in accepting,
                    *tables.ranges[number],
                    needs[number],
                    first,
                    len(state_indexes),
                ]
            )
        binds, bind_ranges = [], [0]
        for name in names:
            atom = next(atom for atom in atoms if atom.name == name)
            binds += [
                (place, places[one], tables.slots.get(one, -1))
                for place, one in enumerate(atom.possible)
                if one in places
            ]
            bind_ranges.append(len(binds))
        self._tables = (
            table(states, kernel.STATE_WIDTH),
            table(tables.edges, kernel.EDGE_WIDTH),
            table(indexes, kernel.INDEX_WIDTH),
            np.array(state_indexes, np.int64),
            np.array(columns, np.int64),
            np.array(tables.edge_keys, np.int64),
            table(tables.checks, 2),
            table(tables.conditions, 9),
            np.array(tables.constants, np.float64),
            np.array(tables.clears, np.int64),
            table(binds, 3),
            np.array(bind_ranges, np.int64),
        )
        self._links = max(1, max(map(len, by_state)))
        self.clear()

    def clear(self) -> None:
        """Lets go of all runs."""
        size = 2
        while size < min(_SMALL, self._shedding.limit):
            size *= 2
        self._rows = np.empty((size, self._width + 1), np.int64)
        self._numbers = np.empty((size, len(self._slots)), np.float64)
        self._link = np.empty((size, self._links), np.int64)
        self._heads = np.full((len(self._tables[2]), size), -1, np.int64)
        self.count = 0
        self._matches = np.empty((_SMALL, self._width + 1), np.int64)

    def step(
        self,
        instants: Ints,
        before: tuple[int, int],
        found: Mapping[str, Solutions],
        numbers: list[Floats],
        previous: list[Ints] | None,
        others: int = 0,
    ) -> Ints:
        """Takes the instants of a batch; answers the runs that came to a state in which something is accepted.

        `before` are the last two instants before the batch, the older one first; `previous` has for each solution
        those of its partition, and `others` is how many partial matches wait elsewhere.
        """
        meta = np.array([self.count, 0, 0, *before], np.int64)
        inputs = self.inputs.arrays(found, numbers, previous)
        crowded = -1  # the instant for which room was made last
        while True:
            taken = kernel.take_instants(
                *self._tables,
                instants,
                *inputs,
                self._rows,
                self._numbers,
                self._link,
                self._heads,
                self._matches,
                meta,
                self._sequence.within,
            )
            self.count, matched = int(meta[kernel.COUNT]), int(meta[kernel.MATCHES])
            if taken == len(instants):
                break
            self.keep(int(instants[taken]) - self._sequence.within, int(meta[kernel.LAST]))
            self._shed(others, crowded == taken)
            meta[kernel.COUNT] = self.count
            if 2 * self.count > len(self._rows) or crowded == taken:
                self._grow(2 * len(self._rows))
            if 2 * matched > len(self._matches) or crowded == taken:
                self._matches = larger(self._matches, 2 * len(self._matches))
            crowded = taken
        made = self._matches[:matched]
        if len(self._matches) > _MOST_ROOM:  # the matches of a large batch would be far more than all runs
            self._matches = np.empty((_SMALL, self._width + 1), np.int64)
        return made

    def _shed(self, others: int, crowded: bool) -> None:
        """Drops the oldest of too many runs; `others` are not here, and count."""
        limit = self._shedding.limit
        if crowded and len(self._rows) > 4 * limit + _SMALL:
            # The runs of one instant are too many: there have to be fewer for it to extend.
            most = self.count // 2
        elif self._shedding.is_over(self.count + others):
            most = max(3 * limit // 4 - others, 0)
        else:
            return
        chosen = self._shedding.youngest_of(self._rows[: self.count], most)
        kept = int(np.count_nonzero(chosen))
        self._rows[:kept], self._numbers[:kept] = (
            self._rows[: self.count][chosen],
            self._numbers[: self.count][chosen],
        )
        self.count = kept
        self._index()

    def keep(self, oldest: int, latest: int) -> Ints:
        """Lets go of what no event can extend any more; answers the rest, each with its state in the last column."""
        self.count = kernel.put_together(
            self._rows, self._numbers, self.count, self._tables[0], oldest, latest
        )
        self._index()
        return self._rows[: self.count]

    def _grow(self, size: int) -> None:
        self._rows, self._numbers = larger(self._rows, size), larger(self._numbers, size)
        self._link = larger(self._link, size)
        self._heads = np.empty((len(self._heads), size), np.int64)
        self._index()

    def _index(self) -> None:
        states, _, indexes, state_indexes, columns = self._tables[:5]
        kernel.link_all(
            self._rows, self._link, self._heads, self.count, state_indexes, indexes, columns, states
        )

    def load(self, runs: list[Ints]) -> bool:
        """Takes runs of all states; False: something to be compared is no number."""
        states = np.repeat(np.arange(len(runs)), list(map(len, runs)))
        cells = np.concatenate([np.concatenate(runs), states[:, None]], axis=1)
        cells = cells[np.argsort(cells[:, 1], kind="stable")]
        numbers = np.empty((len(cells), len(self._slots)), np.float64)
        for name, slot in self._slots.items():
            ids = np.ascontiguousarray(cells[:, self._columns[name]])
            kinds, numbers[:, slot] = self._arena.numbers(ids)
            if ((GROUPS[kinds] != NUMBER) & (ids != 0)).any():
                return False
        self.clear()
        size = _SMALL
        while size < 2 * len(cells):
            size *= 2
        self._grow(size)
        self._rows[: len(cells)], self._numbers[: len(cells)] = cells, numbers
        self.count = len(cells)
        self._index()
        return True

    @property
    def nbytes(self) -> int:
        """The memory of the pool."""
        return sum(
            array.nbytes for array in (self._rows, self._numbers, self._link, self._heads, self._matches)
        )


def larger(cells: NDArray[Any], size: int) -> NDArray[Any]:
    """A copy of a table with room for more rows."""
    found = np.empty((size, cells.shape[1]), cells.dtype)
    found[: len(cells)] = cells
    return found


def table(rows: list[Any], width: int) -> Ints:
    """Rows as a table of numbers, with zeros behind them up to a width."""
    made = np.zeros((len(rows), width), np.int64)
    if rows:
        filled = np.array(rows, np.int64)
        made[:, : filled.shape[1]] = filled
    return made
