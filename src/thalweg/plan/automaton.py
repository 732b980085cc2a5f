"""The automaton of a sequence: immutable, made once; the runs through it are kept elsewhere.

A state is reached by one event of one atom. An edge says when that event comes after the run's last one: later (`;`),
at the next instant (`,`), at the same one (`=`), or at the next instant or the one after (`,,`, around a negation).
Linear alternatives share the states of their common beginnings. A negation is checked when a run is accepted: its
variables may be bound late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from thalweg.algebra.sequences import (
    AT_ONCE,
    FOLLOWED,
    IMMEDIATELY,
    UNTIL_END,
    Line,
    Negation,
    Repeat,
    Sequence,
    Step,
    Together,
    Use,
)
from thalweg.errors import UnsupportedError

BEGIN = -1
WITH_ONE_BETWEEN = ",,"
MOST_STATES = 5_000
LEADING, TRAILING = -1, -2
_SHOWN = {
    FOLLOWED: "later",
    IMMEDIATELY: "at the next instant",
    AT_ONCE: "at the same instant",
    WITH_ONE_BETWEEN: "at the next instant or the one after",
}


@dataclass(frozen=True, slots=True)
class Edge:
    """A way into a state, from another one or from the beginning."""

    parent: int
    op: str
    again: bool = False
    """Whether it begins another iteration."""
    mark: int = -1
    """The number under which a run notes the times before and after a negation; -1: there is none."""


@dataclass(frozen=True, slots=True)
class State:
    """A state, the place of the atom whose events lead into it, and the edges by which they do."""

    use: Use
    edges: tuple[Edge, ...]
    component: int
    """States of one component can be reached from each other; a component comes after those that lead into it."""
    begins: bool = False
    """Whether it is the first of an iteration."""
    renewed: frozenset[str] = frozenset()
    """The variables that each iteration binds anew."""
    certain: frozenset[str] = frozenset()
    """The variables that every run in this state has bound."""


@dataclass(frozen=True, slots=True)
class Absence:
    """An atom that no event may match: after the time of mark `mark`, by `left`, and before it, by `right`.

    By AT_ONCE on the left, at that time only; by UNTIL_END, from there on to the end of the window.
    """

    use: Use
    mark: int
    left: str | None
    right: str | None

    @property
    def waits(self) -> bool:
        """Whether it is about the rest of the window."""
        return self.left == UNTIL_END or (self.mark == TRAILING and self.left != AT_ONCE)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A linear alternative that ends in a state, and its negations."""

    state: int
    absences: tuple[Absence, ...]
    line: str

    @property
    def waits(self) -> bool:
        """Whether a match is known only when the window has passed: some negation lasts until then."""
        return any(absence.waits for absence in self.absences)


@dataclass(frozen=True, slots=True)
class Automaton:
    """States in the order of components, what is accepted, and how many marks a run has."""

    states: tuple[State, ...]
    acceptances: tuple[Acceptance, ...]
    marks: int

    @property
    def looks_back_and_waits(self) -> bool:
        """Whether a match can begin and end in negations: then it depends on two windows, before and after it."""
        return any(
            one.waits and any(absence.mark == LEADING for absence in one.absences) for one in self.acceptances
        )

    @property
    def components(self) -> Iterator[list[int]]:
        """The numbers of the states of each component, in order."""
        found: dict[int, list[int]] = {}
        for number, state in enumerate(self.states):
            found.setdefault(state.component, []).append(number)
        return iter(found.values())


def automaton_of(sequence: Sequence) -> Automaton:
    """The automaton of a sequence."""
    builder = _Builder(sequence)
    for line in sequence.lines:
        builder.add(line)
    return Automaton(tuple(builder.states), tuple(builder.acceptances), builder.marks)


class _Builder:
    def __init__(self, sequence: Sequence) -> None:
        self.sequence = sequence
        self.states: list[State] = []
        self.acceptances: list[Acceptance] = []
        self.marks = 0
        self._components = 0
        self._known: dict[tuple[tuple[int, ...], str, int, Step], tuple[int, ...]] = {}

    def add(self, line: Line) -> None:
        """Takes a linear alternative in."""
        exits: tuple[int, ...] = (BEGIN,)
        waiting: list[int] = []  # places of negations since the last positive step
        absences: list[Absence] = []
        marks = 0
        for place, step in enumerate(line.steps):
            if isinstance(step, Negation):
                waiting.append(place)
                continue
            op, mark = line.ops[place - 1] if place else FOLLOWED, -1
            if waiting and exits == (BEGIN,):
                absences += self._absences(line, waiting, LEADING)
            elif waiting:
                mark, marks = marks, marks + 1
                absences += self._absences(line, waiting, mark)
                around = line.ops[waiting[0] - 1 : place]
                op = WITH_ONE_BETWEEN if set(around) == {IMMEDIATELY} else FOLLOWED
            waiting = []
            exits = self._step(exits, op, mark, step)
        if waiting:
            absences += self._absences(line, waiting, TRAILING)
        self.marks = max(self.marks, marks)
        for state in exits:
            self.acceptances.append(Acceptance(state, tuple(absences), str(line)))

    def _absences(self, line: Line, places: list[int], mark: int) -> Iterator[Absence]:
        for place in places:
            step = line.steps[place]
            assert isinstance(step, Negation)
            left = None if mark == LEADING else line.ops[place - 1]
            right = None if mark == TRAILING else line.ops[place]
            for use in step.uses:
                yield Absence(use, mark, left, right)

    def _step(self, exits: tuple[int, ...], op: str, mark: int, step: Step) -> tuple[int, ...]:
        """The states in which a step ends that begins after some states."""
        key = (exits, op, mark, step)
        if key not in self._known:
            self._known[key] = self._new_step(exits, op, mark, step)
        return self._known[key]

    def _new_step(self, exits: tuple[int, ...], op: str, mark: int, step: Step) -> tuple[int, ...]:
        edges = tuple(Edge(state, op, mark=mark) for state in exits)
        if isinstance(step, Repeat):
            return self._repetition(edges, step)
        assert not isinstance(step, Negation)
        uses = step.uses if isinstance(step, Together) else (step,)
        return (self._at_once(uses, edges, None),)

    def _at_once(
        self,
        uses: tuple[Use, ...],
        edges: tuple[Edge, ...],
        component: int | None,
        renewed: frozenset[str] | None = None,
    ) -> int:
        """States for some atoms at one instant; answers the last one."""
        for place, use in enumerate(uses):
            if place:
                edges = (Edge(len(self.states) - 1, AT_ONCE),)
            if component is None:
                self._components += 1
            begins = renewed is not None and place == 0
            self.states.append(
                State(
                    use,
                    edges,
                    self._components if component is None else component,
                    begins,
                    renewed or frozenset(),
                    self._certain(use, edges, renewed or frozenset()),
                )
            )
        if len(self.states) > MOST_STATES:
            raise UnsupportedError(f"the automaton of this sequence needs more than {MOST_STATES:,} states")
        return len(self.states) - 1

    def _certain(self, use: Use, edges: tuple[Edge, ...], renewed: frozenset[str]) -> frozenset[str]:
        before = [
            frozenset[str]()
            if edge.parent == BEGIN
            else self.states[edge.parent].certain - (renewed if edge.again else frozenset())
            for edge in edges
        ]
        own = self.sequence.atom(use).certain
        if self.sequence.partition is not None:
            own |= {self.sequence.partition}
        return own | frozenset.intersection(*before)

    def _repetition(self, edges: tuple[Edge, ...], step: Repeat) -> tuple[int, ...]:
        """Copies of the iteration: as many as it may have, or, without a bound, a last one that repeats itself."""
        renewed = frozenset(
            name for way in step.ways for use in way for name in self.sequence.bound_anew(use)
        )
        exits: list[int] = []
        for copy in range(1, (step.most or step.least) + 1):
            self._components += 1
            component = self._components
            first = len(self.states)
            begins: list[int] = []
            lasts: list[int] = []
            for way in step.ways:
                begins.append(len(self.states))
                lasts.append(self._at_once(way, edges, component, renewed))
            edges = tuple(Edge(last, IMMEDIATELY, again=True) for last in lasts)
            if step.most is None and copy == step.least:
                for number in begins:
                    state = self.states[number]
                    self.states[number] = State(
                        state.use,
                        state.edges + edges,
                        component,
                        True,
                        renewed,
                        state.certain,
                    )
            else:
                # Without a way back, each state is a component of its own, after the one that leads into it.
                for number in range(first, len(self.states)):
                    self._components += 1
                    old = self.states[number]
                    self.states[number] = State(
                        old.use, old.edges, self._components, old.begins, renewed, old.certain
                    )
            if copy >= step.least:
                exits += lasts
        return tuple(exits)


def shared_by(sequence: Sequence, automaton: Automaton, state: State, edge: Edge) -> tuple[str, ...]:
    """The variables that runs before an edge and the events that extend them have in common for certain."""
    if not sequence.optimisations.index_by_values:
        return ()
    certain = automaton.states[edge.parent].certain & sequence.atom(state.use).certain
    return tuple(sorted(certain - state.renewed if edge.again else certain))


def describe(automaton: Automaton) -> Iterator[str]:
    """The automaton in lines of text."""
    for number, state in enumerate(automaton.states):
        ways = [
            "at the beginning"
            if edge.parent == BEGIN
            else f"after {edge.parent} {_SHOWN[edge.op]}{', again' if edge.again else ''}"
            for edge in state.edges
        ]
        yield f"state {number}    {state.use}: {'; or '.join(dict.fromkeys(ways))}"
    ends: dict[tuple[str, tuple[Absence, ...]], list[int]] = {}
    for one in automaton.acceptances:
        ends.setdefault((one.line, one.absences), []).append(one.state)
    for (line, absences), states in ends.items():
        shown = "".join(f"; unless {absence.use} {_where(absence)}" for absence in absences)
        yield f"accepts    {line}: in state {', '.join(map(str, states))}{shown}"


def _where(absence: Absence) -> str:
    if absence.left == AT_ONCE:
        return "happens at the same instant"
    if absence.left == UNTIL_END and absence.mark >= 0:
        return "follows, up to the end of the window"
    if absence.mark == LEADING:
        return "comes before"
    return "follows within the window" if absence.mark == TRAILING else "comes between"


def edges_of(automaton: Automaton) -> Iterator[tuple[int, int, str]]:
    """The edges as pairs of states and labels, for a drawing; BEGIN is the beginning."""
    for number, state in enumerate(automaton.states):
        for edge in state.edges:
            label = "" if edge.parent == BEGIN else edge.op
            yield edge.parent, number, label
