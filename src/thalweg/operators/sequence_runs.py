"""The runs of a sequence: partial matches in the states of its automaton, extended by batches of complete instants.

A run is a row of numbers: its first and its last time, the times around each negation that it has passed, and the ids
of variables that something still to come can ask for. Events are joined with the runs of the states before them: by the
values of the variables that both have for certain, within the range of times that the edge and the window allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.expressions import Call, Constant, Expression, Variable, substitute, variables_of
from thalweg.algebra.query import Query
from thalweg.algebra.sequences import (
    IMMEDIATELY,
    PREVIOUS,
    Atom,
    Sequence,
    function_name,
    uses_of,
)
from thalweg.algebra.terms import XSD, Const
from thalweg.errors import LimitError
from thalweg.expressions.evaluate import Evaluator
from thalweg.kernels.sequences import expand_ranges, find_ranges
from thalweg.kernels.times import NO_TIME
from thalweg.operators.state import State as Saved
from thalweg.plan.automaton import (
    AT_ONCE,
    BEGIN,
    LEADING,
    TRAILING,
    WITH_ONE_BETWEEN,
    Absence,
    Acceptance,
    Automaton,
    Edge,
    automaton_of,
)
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MOST_RUNS = 10_000_000
"""Partial matches that one query may have."""
_FIRST, _LAST, _MARKS = 0, 1, 2
_NONE, _LATEST, _ALL = range(
    3
)  # runs that can be extended: none, those of the last instant, those in the window
_AGAIN = "\x1fagain"
_PAIRS = 1 << 18
_ZERO = Constant(Const.literal("0", datatype=f"{XSD}integer"))
_ONE = Constant(Const.literal("1", datatype=f"{XSD}integer"))


@dataclass
class Solutions:
    """The solutions of an atom in some events, in the order of time: when, and the ids of its variables."""

    times: Ints
    rows: Ints

    def __len__(self) -> int:
        return len(self.times)


class Instants:
    """The instants at which something happens that counts, by the value of the partition (0 without one)."""

    def __init__(self) -> None:
        self.values = np.empty(0, np.int64)
        self.times = np.empty(0, np.int64)

    def add(self, values: Ints, times: Ints) -> None:
        """Takes more of them, in any order."""
        if not len(times):
            return
        values, times = np.concatenate([self.values, values]), np.concatenate([self.times, times])
        order = np.lexsort((times, values))
        values, times = values[order], times[order]
        new = np.ones(len(times), np.bool_)
        new[1:] = (values[1:] != values[:-1]) | (times[1:] != times[:-1])
        self.values, self.times = values[new], times[new]

    def before(self, values: Ints, times: Ints, many: int = 1) -> Ints:
        """For each time the instant before it, or that before the one before it; NO_TIME where there is none."""
        values, times = np.ascontiguousarray(values), np.ascontiguousarray(times)
        begin, end = np.empty(len(times), np.int64), np.empty(len(times), np.int64)
        find_ranges(self.values, self.times, values, times, times, begin, end)
        place = begin - many
        found = np.full(len(times), NO_TIME, np.int64)
        there = place >= 0
        there[there] = self.values[place[there]] == values[there]
        found[there] = self.times[place[there]]
        return found

    def forget(self, until: int) -> None:
        """Lets go of instants before a time."""
        kept = self.times >= until
        if not kept.all():
            self.values, self.times = self.values[kept], self.times[kept]


class SequenceRuns:
    """The state of one sequence query. It has the protocol of a pipeline, for its view."""

    replayable = True
    lead = 0
    awaits_start = False
    due: int | None = None

    def __init__(self, query: Query, arena: Arena) -> None:
        assert query.sequence is not None
        self.sequence: Sequence = query.sequence
        self.automaton: Automaton = automaton_of(self.sequence)
        self._arena = arena
        self._columns = [pair for pair in self.sequence.columns if pair[0] in query.columns or query.template]
        self.width = len(self._columns)
        asked = [condition for atom in self.sequence.atoms for condition in atom.conditions]
        shown = [expression for _, expression in self.sequence.columns]
        self._functions = _functions_in([*(one.expression for one in asked), *shown])
        self.names = self._kept_names([*(one.expression for one in asked), *shown])
        self._place = {name: _MARKS + 2 * self.automaton.marks + k for k, name in enumerate(self.names)}
        self._vars = _MARKS + 2 * self.automaton.marks
        self._wide = self._vars + len(self.names)
        self._conditions = {
            atom.name: [
                (
                    Evaluator(_without_averages(one.expression), self.names, arena),
                    any(name.startswith(f"{PREVIOUS}(") for name in variables_of(one.expression)),
                )
                for one in atom.conditions
            ]
            for atom in self.sequence.atoms
        }
        self._shown = [Evaluator(_without_averages(one), self.names, arena) for _, one in self._columns]
        self._zero = arena.intern(_ZERO.value.text.encode())
        self._accumulators = self._make_accumulators(arena)
        negated = {absence.use.atom for one in self.automaton.acceptances for absence in one.absences}
        self._negated = {name: self._no_solutions(name) for name in negated}
        self._instants = Instants()
        none = np.empty((0, self._wide), np.int64)
        self._runs = [none] * len(self.automaton.states)
        self._waiting = [none] * len(self.automaton.acceptances)
        self._needed = self._needs()

    # What runs keep

    def _kept_names(self, expressions: list[Expression]) -> tuple[str, ...]:
        """The variables that runs have: those of several atoms, of conditions and of the answer."""
        users = Counter(
            name for use in uses_of(self.sequence.pattern) for name in self.sequence.atom(use).possible
        )
        wanted = {name for name, many in users.items() if many > 1}
        if self.sequence.partition is not None:
            wanted.add(self.sequence.partition)
        for expression in expressions:
            wanted.update(name for name in variables_of(expression) if name in users)
        for function, name in self._functions:
            wanted.add(name)
            wanted.add(function_name(function, name))
            if function in ("MIN", "MAX", "FIRST", "AVG", "SUM"):
                wanted.add(function_name("COUNT", name))
            if function == "AVG":
                wanted.remove(function_name("AVG", name))
                wanted.add(function_name("SUM", name))
        if any(function == PREVIOUS for function, _ in self._functions):
            wanted.add(_AGAIN)
        return tuple(sorted(wanted))

    def _make_accumulators(self, arena: Arena) -> dict[str, list[tuple[int, Evaluator]]]:
        """By variable: the columns that an iteration changes which binds it, and their new values."""
        found: dict[str, list[tuple[int, Evaluator]]] = {}
        for name in {name for function, name in self._functions if function != PREVIOUS}:
            value = Variable(name)
            count = Variable(function_name("COUNT", name))
            first = Call("=", (count, _ZERO))
            for function in ("COUNT", "SUM", "MIN", "MAX", "FIRST", "LAST"):
                column = function_name(function, name)
                if column not in self.names:
                    continue
                before = Variable(column)
                new: Expression = value
                match function:
                    case "COUNT":
                        new = Call("+", (before, _ONE))
                    case "SUM":
                        new = Call("+", (before, value))
                    case "MIN" | "MAX":
                        compared = Call("<" if function == "MIN" else ">", (value, before))
                        new = Call("IF", (first, value, Call("IF", (compared, value, before))))
                    case "FIRST":
                        new = Call("IF", (first, value, before))
                found.setdefault(name, []).append((self._place[column], Evaluator(new, self.names, arena)))
        return found

    def _needs(self) -> list[int]:
        """For each state which of its runs later events can extend."""
        found = [_NONE] * len(self.automaton.states)
        for state in self.automaton.states:
            for edge in state.edges:
                if edge.parent != BEGIN and edge.op != AT_ONCE:
                    by_last = edge.op == IMMEDIATELY and self.sequence.partition is None
                    found[edge.parent] = max(found[edge.parent], _LATEST if by_last else _ALL)
        return found

    def _no_solutions(self, name: str) -> Solutions:
        width = len(next(atom for atom in self.sequence.atoms if atom.name == name).possible)
        return Solutions(np.empty(0, np.int64), np.empty((0, width), np.int64))

    # Work

    def step(self, times: Ints, found: dict[str, Solutions], settled: int) -> tuple[Ints, Ints]:
        """Takes the events of complete instants up to `settled`: their times, and the solutions of atoms in them.

        Answers the matches that are known now: their times, and their rows.
        """
        self._note_instants(times, found)
        for name, kept in self._negated.items():
            new = found[name]
            self._negated[name] = Solutions(
                np.concatenate([kept.times, new.times]), np.concatenate([kept.rows, new.rows])
            )
        fresh = self._extend_all(found) if any(map(len, found.values())) else None
        outputs: list[tuple[Ints, Ints]] = []
        for number, acceptance in enumerate(self.automaton.acceptances):
            cells = fresh[acceptance.state] if fresh is not None else self._waiting[number][:0]
            if acceptance.waits:
                waiting = np.concatenate([self._waiting[number], cells])
                ripe = waiting[:, _FIRST] + self.sequence.within <= settled
                cells, self._waiting[number] = waiting[ripe], waiting[~ripe]
            if len(cells):
                cells = self._without_negated(acceptance, cells)
                at = cells[:, _FIRST] + self.sequence.within if acceptance.waits else cells[:, _LAST]
                outputs.append((at, self._rows(cells)))
        self._keep(fresh, settled)
        if not outputs:
            return np.empty(0, np.int64), np.empty((0, self.width), np.int64)
        at, rows = (np.concatenate(parts) for parts in zip(*outputs, strict=True))
        if self.sequence.distinct:
            both = np.unique(np.concatenate([at[:, None], rows], axis=1), axis=0)
            at, rows = both[:, 0], both[:, 1:]
        order = np.argsort(at, kind="stable")
        return at[order], rows[order]

    def _note_instants(self, times: Ints, found: dict[str, Solutions]) -> None:
        name = self.sequence.partition
        if name is None:
            self._instants.add(np.zeros(len(times), np.int64), times)
            return
        for atom in self.sequence.atoms:
            if name in atom.possible:
                new = found[atom.name]
                values = new.rows[:, atom.possible.index(name)]
                self._instants.add(values[values != 0], new.times[values != 0])

    def _extend_all(self, found: dict[str, Solutions]) -> list[Ints]:
        """The new runs of each state, from the events of a batch."""
        none = np.empty((0, self._wide), np.int64)
        fresh = [none] * len(self.automaton.states)
        total = sum(map(len, self._runs))
        for component in self.automaton.components:
            inside = set(component)
            rounds = {number: self._runs[number] for number in component}
            first = True
            while True:
                made: dict[int, Ints] = {}
                for number in component:
                    state = self.automaton.states[number]
                    new = found[state.use.atom]
                    if not len(new):
                        continue
                    parts = []
                    for edge in state.edges:
                        if edge.parent in inside:
                            before = rounds.get(edge.parent, none)
                        elif not first:
                            continue
                        elif edge.parent == BEGIN:
                            before = none
                        else:
                            before = np.concatenate([self._runs[edge.parent], fresh[edge.parent]])
                        parts += self._extend(number, edge, before, new)
                    if parts:
                        made[number] = np.concatenate(parts)
                first = False
                made = {number: cells for number, cells in made.items() if len(cells)}
                for number, cells in made.items():
                    fresh[number] = np.concatenate([fresh[number], cells])
                    total += len(cells)
                self._check_limit(total)
                rounds = made
                if not made or (len(component) == 1 and not _repeats(self.automaton, component[0])):
                    break
        return fresh

    def _check_limit(self, total: int) -> None:
        if total > MOST_RUNS:
            raise LimitError(
                f"the sequence has more than {MOST_RUNS:,} partial matches: shorten WITHIN, or join atoms by a variable"
            )

    def _extend(self, number: int, edge: Edge, runs: Ints, new: Solutions) -> list[Ints]:
        """The runs that events make of the runs before an edge, in parts."""
        state = self.automaton.states[number]
        atom = self.sequence.atom(state.use)
        values = self._partition_of(atom, new)
        if values is not None:
            bound = values != 0
            new, values = Solutions(new.times[bound], new.rows[bound]), values[bound]
        if edge.parent == BEGIN:
            runs = np.zeros((len(new), self._wide), np.int64)
            runs[:, _FIRST] = new.times
            for name in {name for function, name in self._functions if function != PREVIOUS}:
                for function in ("COUNT", "SUM"):
                    if (column := function_name(function, name)) in self._place:
                        runs[:, self._place[column]] = self._zero
            every = np.arange(len(new))
            return [self._joined(number, edge, runs, new, every)]
        if not len(runs) or not len(new):
            return []
        low, high = self._range(edge, new.times, values)
        certain = self.automaton.states[edge.parent].certain & atom.certain
        if edge.again:
            certain -= state.renewed
        keys = sorted(certain.intersection(self.names))
        parts = []
        for left, right in _pairs(
            runs[:, [self._place[name] for name in keys]],
            runs[:, _LAST],
            new.rows[:, [atom.possible.index(name) for name in keys]],
            low,
            high,
        ):
            near = new.times[right] - runs[left, _FIRST] <= self.sequence.within
            parts.append(self._joined(number, edge, runs[left[near]], new, right[near]))
        return parts

    def _partition_of(self, atom: Atom, new: Solutions) -> Ints | None:
        if self.sequence.partition is None:
            return None
        return new.rows[:, atom.possible.index(self.sequence.partition)]

    def _range(self, edge: Edge, times: Ints, values: Ints | None) -> tuple[Ints, Ints]:
        """The last times of runs that events at some times can follow by an edge."""
        if edge.op == AT_ONCE:
            return times, times
        if values is None:
            values = np.zeros(len(times), np.int64)
        if edge.op == IMMEDIATELY:
            before = self._instants.before(values, times)
            return np.where(before == NO_TIME, 1, before), np.where(before == NO_TIME, 0, before)
        low = times - self.sequence.within
        if edge.op == WITH_ONE_BETWEEN:
            low = np.maximum(low, self._instants.before(values, times, 2))
        return low, times - 1

    def _joined(self, number: int, edge: Edge, runs: Ints, new: Solutions, chosen: Ints) -> Ints:
        """Runs, each with one event behind it, as far as they agree and conditions hold; the runs are changed."""
        state = self.automaton.states[number]
        atom = self.sequence.atom(state.use)
        if state.begins:
            for function, name in self._functions:
                if function == PREVIOUS:
                    source = runs[:, self._place[name]] if edge.again else 0
                    runs[:, self._place[function_name(function, name)]] = source
            if _AGAIN in self._place:
                runs[:, self._place[_AGAIN]] = edge.again
            if edge.again:
                for name in state.renewed.intersection(self.names):
                    runs[:, self._place[name]] = 0
        if edge.mark >= 0:
            runs[:, _MARKS + 2 * edge.mark] = runs[:, _LAST]
            runs[:, _MARKS + 2 * edge.mark + 1] = new.times[chosen]
        runs[:, _LAST] = new.times[chosen]
        runs, _ = self._agreeing(atom, runs, new, chosen)
        for condition, has_previous in self._conditions[atom.name]:
            if len(runs):
                holds = condition.holds(runs[:, self._vars :])
                if has_previous:
                    holds |= runs[:, self._place[_AGAIN]] == 0
                runs = runs[holds]
        for name in state.renewed.intersection(self._accumulators, atom.possible):
            self._accumulate(name, runs)
        return runs

    def _agreeing(self, atom: Atom, runs: Ints, new: Solutions, chosen: Ints) -> tuple[Ints, Bools]:
        """The runs that agree with a solution each, with its values; and which these are."""
        agrees = np.ones(len(runs), np.bool_)
        columns = []
        for place, name in enumerate(atom.possible):
            column = self._place.get(name)
            if column is not None:
                own, other = runs[:, column], new.rows[chosen, place]
                agrees &= (own == other) | (own == 0) | (other == 0)
                columns.append((column, np.where(other != 0, other, own)))
        for column, values in columns:
            runs[:, column] = values
        return runs[agrees], agrees

    def _accumulate(self, name: str, runs: Ints) -> None:
        """Notes the value that a variable has in this iteration."""
        bound = runs[:, self._place[name]] != 0
        if not bound.any():
            return
        rows = np.ascontiguousarray(runs[bound][:, self._vars :])
        for column, value in self._accumulators[name]:
            runs[bound, column] = value.values(rows)

    # Negation

    def _without_negated(self, acceptance: Acceptance, cells: Ints) -> Ints:
        """The matches that no event of a negated atom speaks against."""
        certain = self.automaton.states[acceptance.state].certain
        for absence in acceptance.absences:
            if len(cells):
                cells = cells[~self._contradicted(absence, cells, certain)]
        return cells

    def _contradicted(self, absence: Absence, cells: Ints, certain: frozenset[str]) -> Bools:
        found = np.zeros(len(cells), np.bool_)
        atom = self.sequence.atom(absence.use)
        against = self._negated[atom.name]
        if not len(against):
            return found
        first, last, within = cells[:, _FIRST], cells[:, _LAST], self.sequence.within
        before, after = last, first
        if absence.mark >= 0:
            before, after = cells[:, _MARKS + 2 * absence.mark], cells[:, _MARKS + 2 * absence.mark + 1]
        low = last - within if absence.mark == LEADING else before + 1
        high = first + within if absence.mark == TRAILING else after - 1
        keys = sorted((certain & atom.certain).intersection(self.names))
        for left, right in _pairs(
            against.rows[:, [atom.possible.index(name) for name in keys]],
            against.times,
            cells[:, [self._place[name] for name in keys]],
            low,
            high,
        ):
            times = against.times[left]
            values = self._values_of(cells[right])
            stands = np.ones(len(left), np.bool_)
            if absence.left == IMMEDIATELY:
                stands &= self._instants.before(values, times) <= before[right]
            if absence.right == IMMEDIATELY:
                stands &= self._instants.before(values, after[right]) <= times
            left, right = left[stands], right[stands]
            rows, agrees = self._agreeing(atom, cells[right], against, left)
            right = right[agrees]
            for condition, _ in self._conditions[atom.name]:
                if len(rows):
                    holds = condition.holds(rows[:, self._vars :])
                    rows, right = rows[holds], right[holds]
            found[right] = True
        return found

    def _values_of(self, cells: Ints) -> Ints:
        name = self.sequence.partition
        return np.zeros(len(cells), np.int64) if name is None else cells[:, self._place[name]]

    # The answer

    def _rows(self, cells: Ints) -> Ints:
        rows = np.ascontiguousarray(cells[:, self._vars :])
        columns = [one.values(rows) for one in self._shown]
        return np.stack(columns, axis=1) if columns else np.empty((len(cells), 0), np.int64)

    # Time and memory

    def _keep(self, fresh: list[Ints] | None, settled: int) -> None:
        """Adds new runs to those that are kept, and lets go of what is too old for the window."""
        oldest = settled + 1 - self.sequence.within
        latest = int(self._instants.times.max(initial=NO_TIME))
        for number, runs in enumerate(self._runs):
            if fresh is not None and len(fresh[number]):
                runs = np.concatenate([runs, fresh[number]])
            if len(runs):
                kept = runs[:, _FIRST] >= oldest
                if self._needed[number] != _ALL:
                    kept &= runs[:, _LAST] == (latest if self._needed[number] == _LATEST else NO_TIME)
                self._runs[number] = runs if kept.all() else runs[kept]
        for name, old in self._negated.items():
            kept = old.times >= oldest
            if not kept.all():
                self._negated[name] = Solutions(old.times[kept], old.rows[kept])
        self._instants.forget(oldest)

    @property
    def held(self) -> int:
        """How many partial matches, and solutions of negated atoms, are kept."""
        kept = sum(map(len, self._runs)) + sum(map(len, self._waiting))
        return kept + sum(map(len, self._negated.values()))

    @property
    def nbytes(self) -> int:
        """The memory of what is kept."""
        return self.memory().total()

    def memory(self) -> Counter[str]:
        """The memory of what is kept."""
        kept = sum(cells.nbytes for cells in (*self._runs, *self._waiting))
        kept += sum(one.times.nbytes + one.rows.nbytes for one in self._negated.values())
        return Counter({"sequence": kept + self._instants.times.nbytes + self._instants.values.nbytes})

    def live_ids(self) -> list[Ints]:
        """The term ids that are kept."""
        flag = self._place.get(_AGAIN)
        terms = [k for k in range(self._vars, self._wide) if k != flag]
        found = [cells[:, terms].ravel() for cells in (*self._runs, *self._waiting) if len(cells)]
        found += [one.rows.ravel() for one in self._negated.values()]
        found += [one.live_ids() for pairs in self._conditions.values() for one, _ in pairs]
        found += [one.live_ids() for one in self._shown]
        found += [one.live_ids() for pairs in self._accumulators.values() for _, one in pairs]
        return [*found, self._instants.values, np.array([self._zero], np.int64)]

    def clear(self) -> None:
        """Lets go of everything."""
        none = np.empty((0, self._wide), np.int64)
        self._runs = [none] * len(self._runs)
        self._waiting = [none] * len(self._waiting)
        self._negated = {name: self._no_solutions(name) for name in self._negated}
        self._instants = Instants()

    def give_back(self, spare: int) -> bool:
        """Nothing is kept beyond what is needed."""
        return True

    def state(self) -> Saved:
        """Everything that runs consist of."""
        return {
            "runs": list(self._runs),
            "waiting": list(self._waiting),
            "negated": {name: [one.times, one.rows] for name, one in self._negated.items()},
            "instants": [self._instants.values, self._instants.times],
        }

    def restore(self, state: Saved) -> None:
        """Goes on where saved runs of the same sequence were."""
        self._runs = [np.array(cells) for cells in state["runs"]]
        self._waiting = [np.array(cells) for cells in state["waiting"]]
        self._negated = {name: Solutions(*map(np.array, pair)) for name, pair in state["negated"].items()}
        self._instants.values, self._instants.times = map(np.array, state["instants"])


def _repeats(automaton: Automaton, number: int) -> bool:
    return any(edge.parent == number for edge in automaton.states[number].edges)


def _functions_in(expressions: list[Expression]) -> list[tuple[str, str]]:
    """The functions of repetitions that some expressions call, with their variables."""
    found: dict[tuple[str, str], None] = {}
    for expression in expressions:
        for name in variables_of(expression):
            function, _, inner = name.partition("(")
            if inner:
                found[function, inner.removesuffix(")")] = None
    return list(found)


def _without_averages(expression: Expression) -> Expression:
    """An average is the sum by the count; over nothing, it is 0."""
    averages = {}
    for name in variables_of(expression):
        if name.startswith("AVG("):
            total, count = Variable(f"SUM{name[3:]}"), Variable(f"COUNT{name[3:]}")
            averages[name] = Call("IF", (Call("=", (count, _ZERO)), _ZERO, Call("/", (total, count))))
    return substitute(expression, averages)


def _pairs(
    keys: Ints, times: Ints, wanted: Ints, low: Ints, high: Ints
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The pairs of places, left and right, where the hashes of keys agree and the left time is from low to high.

    In parts of a bounded size, unless one right row alone has more.
    """
    left_hash, right_hash = _hashed(keys), _hashed(wanted)
    order = np.lexsort((times, left_hash))
    begin, end = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.int64)
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    total = find_ranges(left_hash[order], times[order], right_hash, low, high, begin, end)
    if not total:
        return
    ends = np.cumsum(end - begin)
    first = 0
    while first < len(wanted):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + _PAIRS, side="right")))
        count = int(ends[last - 1]) - done
        if count:
            left, right = np.empty(count, np.intp), np.empty(count, np.intp)
            expand_ranges(begin, end, order, first, last, left, right)
            yield left, right
        first = last


def _hashed(keys: Ints) -> Ints:
    """A number for each row of a key."""
    found = np.zeros(len(keys), np.uint64)
    for column in keys.T:
        found = (found ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
    return found.view(np.int64)
