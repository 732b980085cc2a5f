"""The pipeline of a query: operators between the match units and the view.

Spans wait in the timeline until their instants come, and leave it as changes; each operator turns changes into changes.
All operators have one protocol and keep the same laws (`tests/unit/operators/test_operator_laws.py`):

1. Any split: outputs sum to the operator's result of the sum of the inputs, also when an instant is cut in two.
2. State is derived from the content of windows; an operator for which that is not so has `replayable = False`.
3. Deterministic by text: nothing depends on ids or on the order of arrival.
4. Exact: a row that is taken back equals the row that came.
5. Live ids are complete: compaction of terms after any step changes nothing.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.nodes import Construct, Distinct, Node, walk
from thalweg.algebra.query import Query
from thalweg.operators.spans import Changes, Spans
from thalweg.operators.state import State
from thalweg.operators.template import Template
from thalweg.operators.timeline import CountedRows, Timeline
from thalweg.plan.program import shown_variables
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]


class Operator(Protocol):
    """A definition, made of a node of the tree, and its state."""

    width: int
    """The cells of a row that comes out."""
    replayable: bool
    """Whether the state follows from the content of windows."""
    linear: bool
    """Whether it takes rows one by one. One that is not nets its result, and needs all rows of an event at once."""

    def step(self, changes: Changes) -> Changes:
        """Takes changes in time order; gives the changes of the operator's result."""
        ...

    def event_rows(self, event: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """The same for whole events, each alone: for each row of the result, the input row that it is of, and it.

        `event` is the event that a row belongs to. Nothing is kept.
        """
        ...

    def state(self) -> State:
        """Everything that is kept."""
        ...

    def restore(self, state: State) -> None:
        """Keeps what a saved one kept."""
        ...

    def live_ids(self) -> list[Ints]:
        """The term ids that are kept."""
        ...

    def clear(self) -> None:
        """Lets go of everything."""
        ...

    def give_back(self, spare: int) -> bool:
        """Returns memory that what is kept and `spare` more rows do not need; whether none is left to return."""
        ...

    @property
    def held(self) -> int:
        """How many rows are kept."""
        ...

    @property
    def nbytes(self) -> int:
        """The memory of what is kept."""
        ...


class DistinctRows:
    """DISTINCT: a row comes with its first copy and goes with its last."""

    replayable = True
    linear = False

    def __init__(self, width: int) -> None:
        self.width = width
        self._counts = CountedRows(width)

    def step(self, changes: Changes) -> Changes:
        """The changes of the set."""
        changes = changes.consolidated()
        if not len(changes):
            return changes
        weight = self._counts.add(changes.weight, changes.rows)
        kept = weight != 0
        return Changes(changes.time[kept], weight[kept], changes.rows[kept])

    def event_rows(self, event: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """The first of equal rows of an event."""
        cells = np.concatenate([event[:, None], rows], axis=1)
        first = np.sort(np.unique(cells, axis=0, return_index=True)[1])
        return first, rows[first]

    def state(self) -> State:
        """The rows and how often they are there."""
        return self._counts.state()

    def restore(self, state: State) -> None:
        """Counts what a saved one counted."""
        self._counts.restore(state)

    def live_ids(self) -> list[Ints]:
        """The term ids of the rows."""
        return [self._counts.content()[0].ravel()]

    def clear(self) -> None:
        """Lets go of everything."""
        self._counts = CountedRows(self.width)

    def give_back(self, spare: int) -> bool:
        """Returns memory that the rows and `spare` more do not need; whether none is left to return."""
        return self._counts.give_back(spare)

    @property
    def held(self) -> int:
        """How many different rows there are."""
        return len(self._counts)

    @property
    def nbytes(self) -> int:
        """The memory of the counts."""
        return self._counts.nbytes


class ConstructTriples:
    """CONSTRUCT's template: a solution becomes triples. Nothing is kept but the constants."""

    replayable = linear = True
    width = 3
    held = nbytes = 0

    def __init__(self, query: Query, arena: Arena) -> None:
        self._template = Template(query, arena)

    def step(self, changes: Changes) -> Changes:
        """The triples of the solutions, with their times and weights."""
        if not len(changes):
            return Changes.empty(self.width)
        origin, triples = self._template.triples(changes.rows)
        return Changes(changes.time[origin], changes.weight[origin], triples)

    def event_rows(self, event: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """The triples of each solution."""
        return self._template.triples(rows)

    def state(self) -> State:
        """Nothing."""
        return {}

    def restore(self, state: State) -> None:
        """Nothing is kept."""

    def live_ids(self) -> list[Ints]:
        """The constants of the template."""
        return [self._template.constants]

    def clear(self) -> None:
        """Nothing is kept."""

    def give_back(self, spare: int) -> bool:
        """Nothing is kept."""
        return True


def operators_of(query: Query, arena: Arena) -> list[tuple[str, Operator]]:
    """The operators of a query's tree from the bottom up, each with its place in the tree."""
    found: list[tuple[str, Operator]] = []
    for place, node in reversed(list(enumerate(walk(query.root)))):
        found += [(f"{place}.{k}", made) for k, made in enumerate(_operators(node, query, arena))]
    return found


def _operators(node: Node, query: Query, arena: Arena) -> list[Operator]:
    match node:
        case Distinct():
            return [DistinctRows(len(shown_variables(query)))]
        case Construct():
            return [ConstructTriples(query, arena), DistinctRows(3)]  # a graph is a set
    return []


class Pipeline:
    """The timeline and the operators of a query: spans in, netted changes out."""

    def __init__(self, query: Query, arena: Arena) -> None:
        self._places = operators_of(query, arena)
        self._operators = [operator for _, operator in self._places]
        self._bound = len(shown_variables(query))
        self.width = self._operators[-1].width if self._operators else self._bound
        self._timeline = Timeline(self._bound)

    @property
    def replayable(self) -> bool:
        """Whether the state of all operators follows from the content of windows."""
        return all(operator.replayable for operator in self._operators)

    @property
    def linear(self) -> bool:
        """Whether all operators take rows one by one."""
        return all(operator.linear for operator in self._operators)

    def schedule(self, spans: Spans) -> None:
        """Takes solutions with their lives; their cells may be reused afterwards."""
        self._timeline.schedule(spans)

    @property
    def due(self) -> int | None:
        """The earliest instant at which something changes without a further triple."""
        return self._timeline.due

    def changes(self, until: int) -> Changes:
        """The changes of the answer at or before `until` that have not been taken, netted within each instant."""
        changes = self._timeline.pop(until)
        for operator in self._operators:
            changes = operator.step(changes)
        netted = self._operators and not self._operators[-1].linear
        return changes if netted else changes.consolidated()

    def event_rows(self, event: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """The answers of whole events, each alone: for each row, the solution that it is of, and it."""
        rows = rows[:, : self._bound]
        origin = np.arange(len(rows))
        for operator in self._operators:
            chosen, rows = operator.event_rows(event[origin], rows)
            origin = origin[chosen]
        return origin, rows

    def state(self) -> State:
        """What waits, and what operators keep, by their places in the tree."""
        return {
            "timeline": self._timeline.state(),
            "operators": {place: operator.state() for place, operator in self._places},
        }

    def restore(self, state: State) -> None:
        """Goes on where a saved pipeline of the same tree was."""
        self._timeline.restore(state["timeline"])
        for place, operator in self._places:
            operator.restore(state["operators"][place])

    def live_ids(self) -> list[Ints]:
        """The term ids that wait or are kept."""
        kept = [ids for operator in self._operators for ids in operator.live_ids()]
        return [self._timeline.rows().ravel(), *kept]

    def clear(self) -> None:
        """Lets go of everything."""
        self._timeline = Timeline(self._bound)
        for operator in self._operators:
            operator.clear()

    def give_back(self, spare: int) -> bool:
        """Returns memory that what is kept and `spare` more rows do not need; whether none is left to return."""
        done = self._timeline.give_back(spare)
        for operator in self._operators:
            done = operator.give_back(spare) and done
        return done

    @property
    def held(self) -> int:
        """How many rows wait or are kept."""
        return len(self._timeline) + sum(operator.held for operator in self._operators)

    @property
    def nbytes(self) -> int:
        """The memory of what waits or is kept."""
        return self._timeline.nbytes + sum(operator.nbytes for operator in self._operators)
