"""The runs of a sequence: partial matches in the states of its automaton, extended by batches of complete instants.

A run is a row of numbers: its first and its last time, the times around each negation that it has passed, and the ids
of variables that something still to come can ask for. Events are joined with the runs of the states before them: by the
values of the variables that both have for certain, within the range of times that the edge and the window allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.expressions import Expression, Variable, variables_of
from thalweg.algebra.query import Query
from thalweg.algebra.sequences import (
    AT_ONCE,
    IMMEDIATELY,
    PREVIOUS,
    Atom,
    Sequence,
    function_name,
    uses_of,
)
from thalweg.algebra.terms import XSD
from thalweg.expressions.evaluate import Evaluator
from thalweg.kernels.sequence_steps import ALL, LATEST, NOTHING
from thalweg.kernels.times import NO_TIME
from thalweg.operators.runs import in_time_order
from thalweg.operators.sequence_buffer import Buffer
from thalweg.operators.sequence_events import Instants, Solutions, pairs
from thalweg.operators.sequence_functions import ZERO, accumulators_of, functions_in, without_averages
from thalweg.operators.sequence_negation import FIRST, LAST, MARKS, Negations, agreeing
from thalweg.operators.sequence_pool import Pool, needs_of
from thalweg.operators.sequence_selection import Selection
from thalweg.operators.sequence_shedding import Shedding
from thalweg.operators.sequence_timeouts import Timeouts
from thalweg.operators.sequence_trails import Trails
from thalweg.operators.state import State as Saved
from thalweg.options import LIMITS, Limits
from thalweg.plan.automaton import (
    BEGIN,
    WITH_ONE_BETWEEN,
    Automaton,
    Edge,
    automaton_of,
    shared_by,
)
from thalweg.plan.comparisons import not_by_instants
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_AGAIN, _TRAIL = "\x1fagain", "\x1ftrail"
_PAUSE = 32  # batches without the pool after one that it could not take


class SequenceRuns:
    """The state of one sequence query. It has the protocol of a pipeline, for its view."""

    replayable = True
    lead = 0
    awaits_start = False
    due: int | None = None

    def __init__(self, query: Query, arena: Arena, limits: Limits = LIMITS) -> None:
        assert query.sequence is not None
        self.sequence: Sequence = query.sequence
        self.automaton: Automaton = automaton_of(self.sequence)
        self._arena = arena
        self._columns = [pair for pair in self.sequence.columns if pair[0] in query.columns or query.template]
        self.width = len(self._columns)
        asked = [condition for atom in self.sequence.atoms for condition in atom.conditions]
        shown = [expression for _, expression in self.sequence.columns]
        self._functions = functions_in([*(one.expression for one in asked), *shown])
        self.names = self._kept_names([*(one.expression for one in asked), *shown])
        self._place = {name: MARKS + 2 * self.automaton.marks + k for k, name in enumerate(self.names)}
        self._vars = MARKS + 2 * self.automaton.marks
        self._wide = self._vars + len(self.names)
        self._conditions = {
            atom.name: [
                (
                    Evaluator(without_averages(one.expression), self.names, arena),
                    any(name.startswith(f"{PREVIOUS}(") for name in variables_of(one.expression)),
                )
                for one in atom.conditions
            ]
            for atom in self.sequence.atoms
        }
        self._shown = [Evaluator(without_averages(one), self.names, arena) for _, one in self._columns]
        plain = [one for _, one in self._columns if isinstance(one, Variable) and one.name in self._place]
        self._plain: list[int] | None = None
        """The places of the columns of the answer in a run, where all of them are variables."""
        if len(plain) == len(self._columns) and self.sequence.timed_out is None:
            self._plain = [self._place[one.name] for one in plain]
        self._zero = arena.intern(ZERO.value.text.encode())
        self._accumulators = accumulators_of(self._functions, self._place, self.names, arena)
        self._negations = Negations(self.sequence, self.automaton, self._place, self._conditions)
        self._instants = Instants()
        none = np.empty((0, self._wide), np.int64)
        self._runs = [none] * len(self.automaton.states)
        self._waiting = [none] * len(self.automaton.acceptances)
        self._needed = needs_of(self.automaton, self.sequence)
        self._shedding = Shedding(limits)
        self._trails: Trails | None = None
        self._selection: Selection | None = None
        self._timeouts: Timeouts | None = None
        if self.sequence.traced:
            self._trails = Trails()
        if self.sequence.timed_out is not None and self._trails is not None:
            self._timeouts = Timeouts(self.automaton, self._trails, self.sequence.within)
        self._flags = [arena.intern(f'"{text}"^^<{XSD}boolean>'.encode()) for text in ("false", "true")]
        if self.sequence.selects and self._trails is not None:
            self._selection = Selection(self.sequence, self.automaton, self._trails, self._texts)
        self._settled = NO_TIME
        self._pool: Pool | Buffer | None = None
        self._pooled, self._pause = False, 0
        if not_by_instants(self.sequence) is None:
            for kind in (Buffer, Pool):
                pool = kind(self.sequence, self.automaton, self._place, self._wide, arena, self._shedding)
                if pool.fits:
                    self._pool = pool
                    break

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
        if self.sequence.traced:
            wanted.add(_TRAIL)
        return tuple(sorted(wanted))

    # Work

    def step(self, times: Ints, found: dict[str, Solutions], settled: int) -> tuple[Ints, Ints]:
        """Takes the events of complete instants up to `settled`: their times, and the solutions of atoms in them.

        Answers the matches that are known now: their times, and their rows.
        """
        latest = self._instants.times[-2:].tolist() if self.sequence.partition is None else []
        self._note_instants(times, found)
        self._negations.add(found)
        fresh = None
        if any(map(len, found.values())):
            accepted = self._step_in_pool(
                times, found, ([NO_TIME, NO_TIME, *latest][-2], [NO_TIME, *latest][-1])
            )
            fresh = accepted or self._extend_all(found)
        outputs: list[tuple[Ints, Ints, Ints]] = []
        for number, acceptance in enumerate(self.automaton.acceptances):
            cells = fresh[acceptance.state] if fresh is not None else self._waiting[number][:0]
            # At once, also for matches that wait: what they are about may be forgotten by the end of the window.
            cells = self._negations.without(acceptance, cells, self._instants, waits=False)
            if acceptance.waits:
                waiting = np.concatenate([self._waiting[number], cells])
                ripe = waiting[:, FIRST] + self.sequence.within <= settled
                cells, self._waiting[number] = waiting[ripe], waiting[~ripe]
                cells = self._negations.without(acceptance, cells, self._instants, waits=True)
            if len(cells):
                at = cells[:, FIRST] + self.sequence.within if acceptance.waits else cells[:, LAST]
                outputs.append((at, self._rows(cells), cells))
        if self._timeouts is not None:
            outputs += self._timed_out(self._timeouts, fresh, settled)
        if not any(len(at) for at, _, _ in outputs):
            self._keep(None if self._pooled else fresh, settled)
            return np.empty(0, np.int64), np.empty((0, self.width), np.int64)
        at, rows = (np.concatenate([one[k] for one in outputs]) for k in (0, 1))
        if self._selection is not None:
            cells = np.concatenate([one[2] for one in outputs])
            chosen = self._selection.select(at, rows, cells[:, self._place[_TRAIL]], self._values_of(cells))
            at, rows = at[chosen], rows[chosen]
        self._keep(None if self._pooled else fresh, settled)
        if self.sequence.distinct:
            both = np.unique(np.concatenate([at[:, None], rows], axis=1), axis=0)
            at, rows = both[:, 0], both[:, 1:]
        if in_time_order(at):
            return at, rows
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

    def _step_in_pool(
        self, times: Ints, found: dict[str, Solutions], latest: tuple[int, int]
    ) -> list[Ints] | None:
        """The runs that came to each accepting state; None: this batch is not for the pool."""
        pool = self._pool
        if pool is None or self._pause:
            self._pause = max(0, self._pause - 1)
            return None
        found, previous = self._in_partitions(pool, found)
        numbers = pool.inputs.numbers(found)
        if numbers is not None and (self._pooled or pool.load(self._runs)):
            none = np.empty((0, self._wide), np.int64)
            if not self._pooled:
                self._pooled, self._runs = True, [none] * len(self._runs)
            waiting = sum(map(len, self._waiting))
            made = pool.step(times, latest, found, numbers, previous, waiting)
            fresh = [none] * len(self._runs)
            accepting = {acceptance.state for acceptance in self.automaton.acceptances}
            for number in accepting:
                fresh[number] = (made if len(accepting) == 1 else made[made[:, -1] == number])[:, :-1]
            if isinstance(pool, Pool) and self._shedding.is_over(pool.count + waiting):
                self._runs, self._pooled = self._all_runs(), False
                total = sum(map(len, self._runs)) + waiting
                if self._shedding.is_over(total):
                    self._shed([none] * len(self._runs), total)
            return fresh
        self._runs, self._pooled, self._pause = self._all_runs(latest[1]), False, _PAUSE
        return None

    def _in_partitions(
        self, pool: Pool | Buffer, found: dict[str, Solutions]
    ) -> tuple[dict[str, Solutions], list[Ints] | None]:
        """The solutions that are in a partition, and the two instants before each of them there."""
        if self.sequence.partition is None:
            return found, None
        kept, previous = {}, []
        for name in pool.inputs.names:
            new = found[name]
            atom = next(atom for atom in self.sequence.atoms if atom.name == name)
            values = self._partition_of(atom, new)
            assert values is not None
            bound = values != 0
            values, new = values[bound], Solutions(new.times[bound], new.rows[bound])
            before = [self._instants.before(values, new.times, many) for many in (1, 2)]
            kept[name] = new
            previous.append(np.stack(before, axis=1))
        return kept, previous

    def _all_runs(self, latest: int | None = None) -> list[Ints]:
        """The runs of each state that can still be extended after the instant `latest`, the last one unless given."""
        if not self._pooled:
            return self._runs
        assert self._pool is not None
        if latest is None:
            latest = self._latest
        if isinstance(self._pool, Buffer):
            cells = self._pool.runs(self._oldest, latest)
        else:
            cells = self._pool.keep(self._oldest, latest)
        return [cells[cells[:, -1] == number, :-1] for number in range(len(self._runs))]

    @property
    def _oldest(self) -> int:
        """The earliest time that a run which is not complete can have begun at."""
        return max(self._settled + 1, NO_TIME + self.sequence.within) - self.sequence.within

    def _extend_all(self, found: dict[str, Solutions]) -> list[Ints]:
        """The new runs of each state, from the events of a batch."""
        none = np.empty((0, self._wide), np.int64)
        fresh = [none] * len(self.automaton.states)
        total = sum(map(len, self._runs)) + sum(map(len, self._waiting))
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
                        made[number] = np.concatenate(self._shedding.bounded(parts))
                first = False
                made = {number: cells for number, cells in made.items() if len(cells)}
                for number, cells in made.items():
                    fresh[number] = np.concatenate([fresh[number], cells])
                    total += len(cells) if self._needed[number] != NOTHING else 0
                if self._shedding.is_over(total):
                    total = self._shed(fresh, total)
                rounds = made
                if not made or (len(component) == 1 and not _repeats(self.automaton, component[0])):
                    break
        return fresh

    def _shed(self, fresh: list[Ints], total: int) -> int:
        """Drops the oldest of too many partial matches, those that wait included; how many are left."""
        numbers = [k for k, needed in enumerate(self._needed) if needed != NOTHING]
        parts = [*self._waiting, *(self._runs[k] for k in numbers), *(fresh[k] for k in numbers)]
        before = sum(map(len, parts))
        parts = self._shedding.shed(parts, total)
        waiting = len(self._waiting)
        self._waiting[:] = parts[:waiting]
        for place, number in enumerate(numbers, waiting):
            self._runs[number], fresh[number] = parts[place], parts[place + len(numbers)]
        return total - before + sum(map(len, parts))

    @property
    def shed(self) -> int:
        """How many partial matches were dropped because there were too many."""
        return self._shedding.count

    def shed_before(self, other: SequenceRuns) -> None:
        """Goes on counting where other runs were."""
        self._shedding.count += other.shed

    def _extend(self, number: int, edge: Edge, runs: Ints, new: Solutions) -> list[Ints]:
        """The runs that events make of the runs before an edge, in parts."""
        state = self.automaton.states[number]
        atom = self.sequence.atom(state.use)
        values = self._partition_of(atom, new)
        if values is not None:
            bound = values != 0
            new, values = new[bound], values[bound]
        if edge.parent == BEGIN:
            runs = np.zeros((len(new), self._wide), np.int64)
            runs[:, FIRST] = new.times
            for name in {name for function, name in self._functions if function != PREVIOUS}:
                for function in ("COUNT", "SUM"):
                    if (column := function_name(function, name)) in self._place:
                        runs[:, self._place[column]] = self._zero
            every = np.arange(len(new))
            return [self._joined(number, edge, runs, new, every)]
        if not len(runs) or not len(new):
            return []
        low, high = self._range(edge, new.times, values)
        common = shared_by(self.sequence, self.automaton, state, edge)
        keys = [name for name in common if name in self.names]
        parts = []
        for left, right in pairs(
            runs[:, [self._place[name] for name in keys]],
            runs[:, LAST],
            new.rows[:, [atom.possible.index(name) for name in keys]],
            low,
            high,
        ):
            near = new.times[right] - runs[left, FIRST] <= self.sequence.within
            parts.append(self._joined(number, edge, runs[left[near]], new, right[near]))
            parts = self._shedding.bounded(parts)
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
            runs[:, MARKS + 2 * edge.mark] = runs[:, LAST]
            runs[:, MARKS + 2 * edge.mark + 1] = new.times[chosen]
        runs[:, LAST] = new.times[chosen]
        runs, agrees = agreeing(self._place, atom, runs, new, chosen)
        chosen = chosen[agrees]
        for condition, has_previous in self._conditions[atom.name]:
            if len(runs):
                holds = condition.holds(runs[:, self._vars :])
                if has_previous:
                    holds |= runs[:, self._place[_AGAIN]] == 0
                runs, chosen = runs[holds], chosen[holds]
        if self._trails is not None:
            before = runs[:, self._place[_TRAIL]]
            if self._timeouts is not None:
                self._timeouts.note(number, before)
            events = chosen if new.events is None else new.events[chosen]
            runs[:, self._place[_TRAIL]] = self._trails.add(before, events, new.times[chosen], number)
        for name in state.renewed.intersection(self._accumulators, atom.possible):
            self._accumulate(name, runs)
        return runs

    def _accumulate(self, name: str, runs: Ints) -> None:
        """Notes the value that a variable has in this iteration."""
        bound = runs[:, self._place[name]] != 0
        if not bound.any():
            return
        rows = np.ascontiguousarray(runs[bound][:, self._vars :])
        for column, value in self._accumulators[name]:
            runs[bound, column] = value.values(rows)

    def _values_of(self, cells: Ints) -> Ints:
        name = self.sequence.partition
        return np.zeros(len(cells), np.int64) if name is None else cells[:, self._place[name]]

    # The answer

    def _timed_out(
        self, timeouts: Timeouts, fresh: list[Ints] | None, settled: int
    ) -> Iterator[tuple[Ints, Ints, Ints]]:
        """The partial matches whose windows end up to `settled`: when, their rows, and they themselves."""
        for number, runs in enumerate(self._runs):
            cells = runs if fresh is None else np.concatenate([runs, fresh[number]])
            cells = cells[cells[:, FIRST] + self.sequence.within <= settled]
            if len(cells):
                values, nodes = self._values_of(cells), cells[:, self._place[_TRAIL]]
                cells = cells[
                    timeouts.ends(number, cells[:, FIRST], cells[:, LAST], nodes, values, self._instants)
                ]
                yield cells[:, FIRST] + self.sequence.within, self._rows(cells, timed_out=True), cells

    def _rows(self, cells: Ints, timed_out: bool = False) -> Ints:
        if self._plain is not None:
            return np.take(cells, self._plain, axis=1)
        rows = np.ascontiguousarray(cells[:, self._vars :])
        columns = [one.values(rows) for one in self._shown]
        for place, (name, _) in enumerate(self._columns):
            if name == self.sequence.timed_out:
                columns[place] = np.full(len(cells), self._flags[timed_out], np.int64)
        return np.stack(columns, axis=1) if columns else np.empty((len(cells), 0), np.int64)

    def _texts(self, rows: Ints) -> list[tuple[str, ...]]:
        """The texts of some rows, as they are compared."""
        return [
            tuple(self._arena.texts(np.array([id]))[0] if id else "" for id in row) for row in rows.tolist()
        ]

    # Time and memory

    def _keep(self, fresh: list[Ints] | None, settled: int) -> None:
        """Adds new runs to those that are kept, and lets go of what is too old for the window."""
        self._settled = settled
        oldest, latest = self._oldest, self._latest
        for number, runs in enumerate(self._runs):
            if fresh is not None and len(fresh[number]):
                runs = np.concatenate([runs, fresh[number]])
            if len(runs):
                kept = runs[:, FIRST] >= oldest
                if self._needed[number] != ALL:
                    kept &= runs[:, LAST] == (latest if self._needed[number] == LATEST else NO_TIME)
                self._runs[number] = runs if kept.all() else runs[kept]
        self._negations.forget(oldest)
        if self.sequence.partition is None and not (self._negations or self.sequence.traced):
            self._instants.forget_all_but(2)  # later events ask for those alone
        else:
            self._instants.forget(oldest)
        if self._trails is not None:
            self._keep_trails(self._trails, oldest)

    def _keep_trails(self, trails: Trails, oldest: int) -> None:
        """Lets go of runs that earlier matches exclude, and of events that no run has."""
        place = self._place[_TRAIL]
        for kept in (self._runs, self._waiting):
            for number, cells in enumerate(kept):
                if len(cells) and self._selection is not None:
                    alive = self._selection.may_go_on(
                        cells[:, FIRST], self._values_of(cells), cells[:, place]
                    )
                    kept[number] = cells if alive.all() else cells[alive]
        if self._selection is not None:
            self._selection.forget(oldest)
        if trails.is_full:
            numbers = trails.forget_others([cells[:, place] for cells in (*self._runs, *self._waiting)])
            for cells in {id(cells): cells for cells in (*self._runs, *self._waiting)}.values():
                cells[:, place] = numbers[cells[:, place]]

    @property
    def held(self) -> int:
        """How many partial matches, and solutions of negated atoms, are kept."""
        buffer = self._buffer()
        kept = (
            buffer.held(self._oldest, self._latest) if buffer is not None else sum(map(len, self._all_runs()))
        )
        return kept + sum(map(len, self._waiting)) + self._negations.held

    def _buffer(self) -> Buffer | None:
        """The buffer, where it has the runs."""
        return self._pool if self._pooled and isinstance(self._pool, Buffer) else None

    @property
    def _latest(self) -> int:
        """The last instant."""
        return int(self._instants.times.max(initial=NO_TIME))

    @property
    def nbytes(self) -> int:
        """The memory of what is kept."""
        return self.memory().total()

    def memory(self) -> Counter[str]:
        """The memory of what is kept."""
        kept = sum(cells.nbytes for cells in (*self._runs, *self._waiting))
        kept += self._negations.nbytes
        kept += 0 if self._trails is None else self._trails.nbytes
        kept += self._pool.nbytes if self._pool is not None else 0
        return Counter({"sequence": kept + self._instants.times.nbytes + self._instants.values.nbytes})

    def live_ids(self) -> list[Ints]:
        """The term ids that are kept."""
        others = [self._place.get(_AGAIN), self._place.get(_TRAIL)]
        terms = [k for k in range(self._vars, self._wide) if k not in others]
        if (buffer := self._buffer()) is not None:
            buffer.keep(self._oldest, self._latest)
            runs, found = self._waiting, [buffer.live_ids(terms)]
        else:
            runs, found = [*self._all_runs(), *self._waiting], []
        found += [cells[:, terms].ravel() for cells in runs if len(cells)]
        found += self._negations.live_ids()
        found += [one.live_ids() for pairs in self._conditions.values() for one, _ in pairs]
        found += [one.live_ids() for one in self._shown]
        found += [one.live_ids() for pairs in self._accumulators.values() for _, one in pairs]
        found += [] if self._selection is None else self._selection.live_ids()
        return [*found, self._instants.values, np.array([self._zero, *self._flags], np.int64)]

    def clear(self) -> None:
        """Lets go of everything."""
        none = np.empty((0, self._wide), np.int64)
        self._runs = [none] * len(self._runs)
        self._waiting = [none] * len(self._waiting)
        self._negations.clear()
        self._instants = Instants()
        if self._selection is not None:
            self._selection.clear()
        self._pooled = False
        if self._pool is not None:
            self._pool.clear()

    def give_back(self, spare: int) -> bool:
        """Nothing is kept beyond what is needed."""
        return True

    def state(self) -> Saved:
        """Everything that runs consist of."""
        buffer = self._buffer()
        if buffer is not None:
            buffer.keep(self._oldest, self._latest)
        return {
            "runs": self._runs if buffer is not None else self._all_runs(),
            "buffer": None if buffer is None else buffer.state(),
            "waiting": list(self._waiting),
            "negated": self._negations.state(),
            "instants": [self._instants.values, self._instants.times],
            "shed": self._shedding.count,
            "trails": None if self._trails is None else self._trails.state(),
            "selection": None if self._selection is None else self._selection.state(),
        }

    def restore(self, state: Saved) -> None:
        """Goes on where saved runs of the same sequence were."""
        self._runs = [np.array(cells) for cells in state["runs"]]
        self._waiting = [np.array(cells) for cells in state["waiting"]]
        self._negations.restore(state["negated"])
        self._instants.values, self._instants.times = map(np.array, state["instants"])
        self._shedding.count = state["shed"]
        if self._trails is not None:
            self._trails.restore(state["trails"])
        if self._selection is not None:
            self._selection.restore(state["selection"])
        self._pooled = state["buffer"] is not None
        if self._pooled:
            assert isinstance(self._pool, Buffer)
            self._pool.restore(state["buffer"])


def _repeats(automaton: Automaton, number: int) -> bool:
    return any(edge.parent == number for edge in automaton.states[number].edges)
