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

from collections import Counter
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.expressions import EVENT_GRAPH, EVENT_TIME, INTERNAL
from thalweg.algebra.query import Query
from thalweg.algebra.terms import XSD
from thalweg.algebra.windows import Range
from thalweg.errors import DataError
from thalweg.expressions.evaluate import Evaluator
from thalweg.instants import show_instant
from thalweg.kernels.layout import OUT_BINDINGS, OUT_FROM, OUT_TO, OUT_WEIGHT
from thalweg.kernels.store import FOREVER
from thalweg.operators.building import Operator, operator_of, table_of
from thalweg.operators.spans import Changes, Spans
from thalweg.operators.state import State
from thalweg.operators.timeline import Timeline
from thalweg.operators.window_ends import WindowEnds
from thalweg.options import LIMITS, Limits
from thalweg.plan.compile import plan_of
from thalweg.plan.physical import NAMES, Constants, Physical, Plan, Scan, inputs_of
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
_DATE_TIME = f"{XSD}dateTime"
MOST_REPORTS = 1_000_000
"""Reports of RSTREAM, and moves of a window whose bounds are asked for, that one step of time may bring."""


@dataclass
class _Input:
    """Where rows enter the operators: the solutions of a leaf that fulfil conditions, or rows of the query's text."""

    leaf: int
    """The leaf; -1 for rows of the text."""
    width: int
    conditions: list[Evaluator]
    table: Ints | None = None

    def chosen(self, spans: Spans, lead: int) -> Spans:
        """The solutions that fulfil the conditions."""
        for condition in self.conditions:
            spans = spans[condition.holds(spans.bindings[:, : self.width - lead])]
        return spans


@dataclass
class _Stage:
    """An operator, its place in the plan, and what it takes: below 0 an input, else the result of a stage."""

    place: str
    name: str
    operator: Operator
    takes: list[int]


class Pipeline:
    """The timeline and the operators of a query: spans in, netted changes out.

    Where several inputs wait in one timeline, the last cell of a row is the number of its input.
    """

    def __init__(self, query: Query, arena: Arena, limits: Limits = LIMITS, plan: Plan | None = None) -> None:
        """`plan` is the query's own, unless it is that of one of its stages."""
        plan = plan or plan_of(query)
        self._of_event = [name for name in plan.root.names if name.startswith(INTERNAL)]
        self._lead = len(self._of_event)
        self._arena = arena
        self._limits = limits
        self._inputs: list[_Input] = []
        self._stages: list[_Stage] = []
        self._built: dict[int, int] = {}
        query.recursing(partial(self._build, plan.root, query, arena, "0"))
        self._operators = [stage.operator for stage in self._stages]
        self._moving = [one for one in self._operators if isinstance(one, WindowEnds)]
        self.width = len(plan.root.names) - self._lead
        self._of_leaf = [
            [k for k, one in enumerate(self._inputs) if one.leaf == leaf] for leaf in range(len(plan.leaves))
        ]
        self._plain = len(self._inputs) == 1 and not self._inputs[0].conditions
        widest = max(one.width for one in self._inputs) - self._lead
        self._waiting = widest + (len(self._inputs) > 1)
        from_text = any(one.table is not None and len(one.table) for one in self._inputs)
        self.awaits_start = from_text and not query.per_event
        """Whether there are rows that begin with the query's first instant, and have not begun."""
        self.needs_events = from_text and query.per_event
        """Whether every event has such rows: then all of them have to be known, also those without a match."""
        reaches = [source.seen.reach if isinstance(source.seen, Range) else None for source in query.sources]
        self._reach = None if from_text or None in reaches else max(filter(None, reaches))
        """How long rows can live without a further triple; None: for ever."""
        self._timeline = Timeline(self._waiting)

    def _build(self, node: Physical, query: Query, arena: Arena, place: str) -> int:
        """Lays out an operator and all below it; answers how it is taken. One that several others take is one."""
        if id(node) not in self._built:
            self._built[id(node)] = self._lay_out(node, query, arena, place)
        return self._built[id(node)]

    def _lay_out(self, node: Physical, query: Query, arena: Arena, place: str) -> int:
        match node:
            case Scan():
                # What waits for its instant was chosen by its terms alone: no condition here is volatile.
                asked = [Evaluator(one, node.names[self._lead :], arena) for one in node.conditions]
                self._inputs.append(_Input(node.leaf, len(node.names), asked))
                return -len(self._inputs)
            case Constants():
                self._inputs.append(_Input(-1, len(node.names), [], table_of(node, arena)))
                return -len(self._inputs)
        takes = [self._build(one, query, arena, f"{place}.{k}") for k, one in enumerate(inputs_of(node))]
        self._stages.append(
            _Stage(place, NAMES[type(node)], operator_of(node, query, arena, self._limits), takes)
        )
        return len(self._stages) - 1

    @property
    def replayable(self) -> bool:
        """Whether the state of all operators follows from the content of windows."""
        return all(operator.replayable for operator in self._operators)

    @property
    def lead(self) -> int:
        """How many columns of the plan are of the event, and not of rows."""
        return self._lead

    @property
    def plain(self) -> bool:
        """Whether solutions are rows of the answer as they are."""
        return self._plain and not self._stages

    def schedule(self, spans: Spans, leaf: int = 0) -> None:
        """Takes solutions of a leaf with their lives; their cells may be reused afterwards."""
        if self._plain:
            self._timeline.schedule(spans)
            return
        for number in self._of_leaf[leaf]:
            chosen = self._inputs[number].chosen(spans, self._lead)
            if len(chosen):
                self._timeline.schedule(self._tagged(chosen, number))

    def _tagged(self, spans: Spans, number: int) -> Spans:
        """Solutions as they wait beside those of other inputs."""
        if len(self._inputs) == 1:
            return spans
        width = self._inputs[number].width - self._lead
        cells = np.zeros((len(spans), OUT_BINDINGS + self._waiting), np.int64)
        cells[:, : OUT_BINDINGS + width] = spans.cells[:, : OUT_BINDINGS + width]
        cells[:, -1] = number
        return Spans(cells)

    def start(self, at: int) -> None:
        """Takes the first instant of the query: the rows of its text begin then."""
        self.awaits_start = False
        for number, one in enumerate(self._inputs):
            if one.table is not None and len(one.table):
                cells = np.zeros((len(one.table), OUT_BINDINGS + self._waiting), np.int64)
                cells[:, OUT_FROM], cells[:, OUT_TO], cells[:, OUT_WEIGHT] = at, FOREVER, 1
                cells[:, OUT_BINDINGS : OUT_BINDINGS + one.table.shape[1]] = one.table
                self._timeline.schedule(self._tagged(Spans(cells), number))

    @property
    def due(self) -> int | None:
        """The earliest instant at which something changes without a further triple."""
        due = self._timeline.due
        for one in self._moving:
            if (moves := one.due) is not None and (due is None or moves < due):
                due = moves
        return due

    def _check_moves(self, until: int) -> None:
        """Refuses a leap in time over so many moves of a window that making them would not end."""
        if (begin := self.due) is None:
            return
        leap = until - begin if self._reach is None else min(until - begin, self._reach)
        for one in self._moving:
            moves = leap // (one.window.moves or 1)
            if moves > MOST_REPORTS:
                raise DataError(
                    f"in the leap in time from {show_instant(begin)} to {show_instant(until)} the bounds of a window "
                    f"change {moves:,} times, and {MOST_REPORTS:,} are the most at once: use a longer STEP, or "
                    "unregister the query"
                )
            one.until = until

    def changes(self, until: int) -> Changes:
        """The changes of the answer at or before `until` that have not been taken, netted within each instant."""
        if self._moving:
            self._check_moves(until)
        changes = self._timeline.pop(until)
        if not self._stages:
            return changes.consolidated()
        if len(self._inputs) == 1:
            return self._run([changes])
        numbers = changes.rows[:, -1]
        parts = []
        for number, one in enumerate(self._inputs):
            mine = changes[numbers == number]
            parts.append(Changes(mine.time, mine.weight, mine.rows[:, : one.width]))
        return self._run(parts)

    def _run(self, inputs: list[Changes]) -> Changes:
        made: list[Changes] = []
        for stage in self._stages:
            taken = [inputs[-one - 1] if one < 0 else made[one] for one in stage.takes]
            made.append(stage.operator.step(*taken))
        return made[-1].consolidated() if self._operators[-1].linear else made[-1]

    def event_rows(self, parts: list[tuple[int, Spans]], events: Ints) -> tuple[Ints, Ints]:
        """The answers of whole events, each alone, from the solutions of leaves: the event of each row, and the row.

        `events` has the number, the time and the graph of all events, if the pipeline needs them.
        """
        inputs = []
        for one in self._inputs:
            rows = [np.empty((0, one.width), np.int64)]
            if one.table is not None and len(one.table):
                every = np.repeat(events, len(one.table), axis=0)
                number, begin, graph = every.T
                rows.append(self._with_event(number, begin, graph, np.tile(one.table, (len(events), 1))))
            for leaf, spans in parts:
                if leaf == one.leaf:
                    found = one.chosen(spans, self._lead)
                    bindings = found.bindings[:, : one.width - self._lead]
                    rows.append(self._with_event(found.event, found.begin, found.graph, bindings))
            cells = np.concatenate(rows)
            none = np.zeros(len(cells), np.int64)
            inputs.append(Changes(none, none + 1, cells))
        changes = self._run(inputs) if self._stages else inputs[0]
        for operator in self._operators:
            operator.clear()
        answers = np.repeat(changes.rows, changes.weight, axis=0)
        return answers[:, 0], answers[:, self._lead :]

    def _with_event(self, event: Ints, begin: Ints, graph: Ints, bindings: Ints) -> Ints:
        """Solutions with the columns of their event before them."""
        columns = [event[:, None]]
        if EVENT_TIME in self._of_event:
            times, back = np.unique(begin, return_inverse=True)
            texts = [f'"{show_instant(time)}"^^<{_DATE_TIME}>'.encode() for time in times.tolist()]
            columns.append(self._arena.intern_all(texts)[back][:, None])
        if EVENT_GRAPH in self._of_event:
            columns.append(graph[:, None])
        return np.concatenate([*columns, bindings], axis=1)

    def state(self) -> State:
        """What waits, and what operators keep, by their places in the plan."""
        return {
            "timeline": self._timeline.state(),
            "operators": {stage.place: stage.operator.state() for stage in self._stages},
            "awaits_start": self.awaits_start,
        }

    def restore(self, state: State) -> None:
        """Goes on where a saved pipeline of the same plan was."""
        self._timeline.restore(state["timeline"])
        self.awaits_start = state["awaits_start"]
        for stage in self._stages:
            stage.operator.restore(state["operators"][stage.place])

    def live_ids(self) -> list[Ints]:
        """The term ids that wait or are kept."""
        kept = [ids for operator in self._operators for ids in operator.live_ids()]
        for one in self._inputs:
            kept += [condition.live_ids() for condition in one.conditions]
            if one.table is not None:
                kept.append(one.table.ravel())
        waiting = self._timeline.rows()
        return [(waiting[:, :-1] if len(self._inputs) > 1 else waiting).ravel(), *kept]

    def clear(self) -> None:
        """Lets go of everything."""
        self._timeline = Timeline(self._waiting)
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
        return self.memory().total()

    def memory(self) -> Counter[str]:
        """The memory of what waits (the timeline) or is kept, by the names of operators."""
        found = Counter({"timeline": self._timeline.nbytes})
        for one in self._inputs:
            for condition in one.conditions:
                found["filter"] += condition.nbytes
        for stage in self._stages:
            found[stage.name] += stage.operator.nbytes
        return found
