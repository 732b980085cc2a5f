"""Negations of a sequence: the solutions of negated atoms in the window, and the matches that they contradict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.sequences import AT_ONCE, IMMEDIATELY, Atom
from thalweg.algebra.sequences import Sequence as Asked
from thalweg.expressions.evaluate import Evaluator
from thalweg.operators.sequence_events import Instants, Solutions, pairs
from thalweg.operators.state import State
from thalweg.plan.automaton import LEADING, Absence, Acceptance, Automaton

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
FIRST, LAST, MARKS = 0, 1, 2
"""The columns of a run: its first and its last time, and from MARKS on the times around negations, in pairs."""


class Negations:
    """What negated atoms have matched. Negations are asked when a run is accepted: then all variables are bound."""

    def __init__(
        self,
        sequence: Asked,
        automaton: Automaton,
        places: Mapping[str, int],
        conditions: Mapping[str, Sequence[tuple[Evaluator, bool]]],
    ) -> None:
        """`places` are the columns of variables in runs, `conditions` the filters of atoms."""
        self._sequence, self._automaton = sequence, automaton
        self._places, self._conditions = places, conditions
        self._vars = MARKS + 2 * automaton.marks
        names = {absence.use.atom for one in automaton.acceptances for absence in one.absences}
        self._atoms = {atom.name: atom for atom in sequence.atoms if atom.name in names}
        self._found: dict[str, Solutions] = {}
        self.clear()

    def __bool__(self) -> bool:
        return bool(self._atoms)

    def clear(self) -> None:
        """Lets go of everything."""
        self._found = {
            name: Solutions(np.empty(0, np.int64), np.empty((0, len(atom.possible)), np.int64))
            for name, atom in self._atoms.items()
        }

    def add(self, found: Mapping[str, Solutions]) -> None:
        """Takes new solutions of atoms, of which it keeps those of negated ones."""
        for name, kept in self._found.items():
            new = found[name]
            self._found[name] = Solutions(
                np.concatenate([kept.times, new.times]), np.concatenate([kept.rows, new.rows])
            )

    def forget(self, until: int) -> None:
        """Lets go of solutions before a time."""
        for name, old in self._found.items():
            kept = old.times >= until
            if not kept.all():
                self._found[name] = old[kept]

    def without(self, acceptance: Acceptance, cells: Ints, instants: Instants, *, waits: bool) -> Ints:
        """The matches that no event of a negated atom contradicts, by the negations that last until the end of the
        window (`waits`), or by the others.
        """
        certain = self._automaton.states[acceptance.state].certain
        for absence in acceptance.absences:
            if len(cells) and absence.waits == waits:
                cells = cells[~self._contradicted(absence, cells, certain, instants)]
        return cells

    def _contradicted(
        self, absence: Absence, cells: Ints, certain: frozenset[str], instants: Instants
    ) -> Bools:
        found = np.zeros(len(cells), np.bool_)
        atom = self._atoms[absence.use.atom]
        against = self._found[atom.name]
        if not len(against):
            return found
        first, last, within = cells[:, FIRST], cells[:, LAST], self._sequence.within
        before, after = last, first
        if absence.mark >= 0:
            before, after = cells[:, MARKS + 2 * absence.mark], cells[:, MARKS + 2 * absence.mark + 1]
        low = last - within if absence.mark == LEADING else before + 1
        high = first + within if absence.waits else after - 1
        if absence.left == AT_ONCE:
            low = high = before
        keys = sorted((certain & atom.certain).intersection(self._places))
        for left, right in pairs(
            against.rows[:, [atom.possible.index(name) for name in keys]],
            against.times,
            cells[:, [self._places[name] for name in keys]],
            low,
            high,
        ):
            times = against.times[left]
            values = self._values_of(cells[right])
            stands = np.ones(len(left), np.bool_)
            if absence.left == IMMEDIATELY:
                stands &= instants.before(values, times) <= before[right]
            if absence.right == IMMEDIATELY:
                stands &= instants.before(values, after[right]) <= times
            left, right = left[stands], right[stands]
            rows, agrees = agreeing(self._places, atom, cells[right], against, left)
            right = right[agrees]
            for condition, _ in self._conditions[atom.name]:
                if len(rows):
                    holds = condition.holds(rows[:, self._vars :])
                    rows, right = rows[holds], right[holds]
            found[right] = True
        return found

    def _values_of(self, cells: Ints) -> Ints:
        name = self._sequence.partition
        return np.zeros(len(cells), np.int64) if name is None else cells[:, self._places[name]]

    # Memory

    @property
    def held(self) -> int:
        """How many solutions are kept."""
        return sum(map(len, self._found.values()))

    @property
    def nbytes(self) -> int:
        """The memory of the solutions."""
        return sum(one.times.nbytes + one.rows.nbytes for one in self._found.values())

    def live_ids(self) -> list[Ints]:
        """The term ids that are kept."""
        return [one.rows.ravel() for one in self._found.values()]

    def state(self) -> State:
        """The solutions, by atom."""
        return {name: [one.times, one.rows] for name, one in self._found.items()}

    def restore(self, state: State) -> None:
        """Has saved solutions."""
        self._found = {name: Solutions(*map(np.array, pair)) for name, pair in state.items()}


def agreeing(
    places: Mapping[str, int], atom: Atom, runs: Ints, new: Solutions, chosen: Ints
) -> tuple[Ints, Bools]:
    """The runs that agree with a solution each, with its values; and which these are. The runs are changed."""
    agrees = np.ones(len(runs), np.bool_)
    columns = []
    for place, name in enumerate(atom.possible):
        column = places.get(name)
        if column is not None:
            own, other = runs[:, column], new.rows[chosen, place]
            agrees &= (own == other) | (own == 0) | (other == 0)
            columns.append((column, np.where(other != 0, other, own)))
    for column, values in columns:
        runs[:, column] = values
    return runs[agrees], agrees
