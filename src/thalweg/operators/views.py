"""Views: how the changing answer of a query becomes a stream of rows (relation to stream).

All views are made of one thing, the changes of a pipeline. Deltas are emitted as soon as they are known, an instant
possibly in parts. RSTREAM, ISTREAM and DSTREAM emit an instant once, when it is complete.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.windows import Count, Range
from thalweg.errors import DataError, LimitError
from thalweg.instants import show_instant
from thalweg.kernels.layout import OUT_EVENT, OUT_FROM, OUT_GRAPH
from thalweg.kernels.times import NO_TIME
from thalweg.operators.ordering import OrderedRows
from thalweg.operators.pipeline import MOST_REPORTS, Pipeline
from thalweg.operators.ranking import Ranking
from thalweg.operators.runs import in_time_order, runs
from thalweg.operators.spans import Changes, Spans
from thalweg.operators.state import State
from thalweg.operators.timeline import CountedRows
from thalweg.options import LIMITS, Limits
from thalweg.plan.physical import Plan
from thalweg.plan.stages import stages_of
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
_NO_EVENTS = np.empty((0, 3), np.int64)
GAP = 2
SIGNS = {0: "0", 1: "+", -1: "-", GAP: "gap"}


@dataclass(slots=True)
class Delta:
    """A batch of result rows: time, sign, ids of the bindings; of [NOW] also the graph and the number of the event.

    Sign 0 is a report with an empty answer, sign GAP stands for rows that were dropped; their ids are 0.
    """

    at: Ints
    op: Ints
    graph: Ints
    event: Ints
    ids: Ints

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, rows: slice | NDArray[np.bool_] | NDArray[np.intp]) -> Delta:
        return Delta(*(column[rows] for column in self.columns))

    @property
    def columns(self) -> tuple[Ints, ...]:
        """The columns in the order in which a delta is made of them."""
        return self.at, self.op, self.graph, self.event, self.ids

    @property
    def signs(self) -> list[str]:
        """The signs as rows show them: `+`, `-`, `0` for a report with an empty answer, or `gap`."""
        return [SIGNS[op] for op in self.op.tolist()]

    @classmethod
    @cache
    def empty(cls, width: int) -> Delta:
        """A delta without rows."""
        none = np.empty(0, np.int64)
        return cls(none, none, none, none, np.empty((0, width), np.int64))

    @classmethod
    def marker(cls, at: int, op: int, width: int) -> Delta:
        """One row that has a time and a sign, and binds nothing."""
        none = np.zeros(1, np.int64)
        return cls(
            np.full(1, at, np.int64), np.full(1, op, np.int64), none, none, np.zeros((1, width), np.int64)
        )

    @classmethod
    def concat(cls, deltas: list[Delta], width: int) -> Delta:
        """Several deltas as one, in time order."""
        if len(deltas) == 1:
            return deltas[0]
        if not deltas:
            return cls.empty(width)
        joined = cls(*map(np.concatenate, zip(*(delta.columns for delta in deltas), strict=True)))
        if not in_time_order(joined.at):
            return joined[np.argsort(joined.at, kind="stable")]
        return joined


def view_of(query: Query, arena: Arena, limits: Limits = LIMITS) -> View:
    """The view that a query asks for, or that of its first stage; its terms are in the arena."""
    if query.cut_by:
        return CutView(query, arena, limits)
    if query.per_event:
        return EventView(query, arena, limits)
    return _view(query, arena, limits, None)


def second_view_of(query: Query, arena: Arena, limits: Limits = LIMITS) -> View:
    """The view of the second stage of a query: the changes of each input of the cut are solutions of a leaf."""
    return _view(query, arena, limits, stages_of(query).second)


def _view(query: Query, arena: Arena, limits: Limits, plan: Plan | None) -> View:
    if query.operator is None:
        return DeltaView(query, arena, limits, plan)
    if query.operator == "RSTREAM":
        return RelationView(query, arena, limits, plan)
    return ChangeView(query, arena, limits, plan)


class View:
    """Turns the changing answer of a query into deltas. `step` takes solutions, `advance` a watermark."""

    def __init__(self, query: Query, arena: Arena, limits: Limits = LIMITS, plan: Plan | None = None) -> None:
        self.limits = limits
        self._pipeline = (
            self._make_pipeline(query, arena, limits)
            if plan is None
            else Pipeline(query, arena, limits, plan)
        )
        self.width = self._pipeline.width
        # Where windows hold what came strictly before an instant, nothing can be added to it when the
        # watermark is there. Any other instant is complete once it is passed.
        windows = query.windows
        self._whole = 0 if all(isinstance(w, Range) and w.early for w in windows) else 1
        self._out: list[Delta] = []
        self.on_delta: Callable[[Delta], None] | None = None
        """Called with each delta, for the stream that is derived from this query."""
        self._untaken = 0
        self._opened: int | None = None
        self.limit: int | None = None
        """How many rows may wait for a poll; None: any number."""
        self.on_overflow: Callable[[View], None] | None = None
        """Called when more rows than that wait."""
        self.keeps = True
        """Whether rows wait for a poll at all."""
        self.dropped = 0
        """How many rows were dropped because they were not taken in time."""
        self._gap: int | None = None
        self.has_static = False
        """Whether there are static data: what they answer does not expire."""
        self.failure: LimitError | None = None
        """Why there are no further answers."""

    def _make_pipeline(self, query: Query, arena: Arena, limits: Limits) -> Pipeline:
        return Pipeline(query, arena, limits)

    def fail(self, error: LimitError) -> None:
        """Ends the query: everything is let go, and who polls it is told why."""
        self.clear()
        self.failure = error

    def check(self) -> None:
        """Raises the error by which the query has ended, if it has."""
        if self.failure is not None:
            raise LimitError(self.failure.reason)

    def step(self, spans: Spans, leaf: int = 0) -> None:
        """Takes solutions of a leaf of the query's plan; their cells may be reused afterwards."""
        self._pipeline.schedule(spans, leaf)

    @property
    def awaits_start(self) -> bool:
        """Whether the query has rows that begin with its first instant, and have not begun."""
        return self._pipeline.awaits_start

    @property
    def first_instant(self) -> int | None:
        """The first instant of a query that has rows which begin then; None: not known yet, or of no importance."""
        return self._opened

    def open(self, at: int) -> None:
        """Takes the time of an event or of an `advance`: the earliest is the first instant of the query."""
        self._opened = at if self._opened is None else min(self._opened, at)

    def start(self, bound: int) -> bool:
        """Begins with the rows of the query's text, if it awaits its first instant and that is not after `bound`."""
        if not self.awaits_start or self._opened is None or self._opened > bound:
            return False
        self._pipeline.start(self._opened)
        return True

    def tick(self, reports: Ints) -> None:
        """Takes the instants at which a window by count is reported; only RSTREAM repeats an answer then."""

    def advance(self, watermark: int) -> None:
        """Emits what is settled by the watermark."""
        raise NotImplementedError

    def begin(self, watermark: int) -> None:
        """Begins with the answer at the last instant that a watermark completes: its rows come then.

        How it came about before is not shown.
        """
        until = self.settled(watermark)
        self._begin(until, self._pipeline.changes(until))

    def _begin(self, at: int, changes: Changes) -> None:
        """Shows the rows of which changes up to an instant are the history."""
        times = np.full(len(changes), at, np.int64)
        self._show(Changes(times, changes.weight, changes.rows).consolidated())

    def poll(self) -> Delta:
        """Everything since the last poll, in time order."""
        self.check()
        deltas, self._out, self._untaken = self._out, [], 0
        if self._gap is not None:
            deltas, self._gap = [Delta.marker(self._gap, GAP, self.width), *deltas], None
        return Delta.concat(deltas, self.width)

    def drop_oldest(self) -> None:
        """Drops the oldest rows that wait, so many that no more than the limit are left; a gap marks their place."""
        while self.limit is not None and self._untaken > self.limit and self._out:
            oldest = self._out.pop(0)
            count = min(len(oldest), self._untaken - self.limit)
            self.dropped += count
            self._untaken -= count
            self._gap = int(oldest.at[count - 1])
            if count < len(oldest):
                self._out.insert(0, oldest[count:])

    def mark_gap(self, at: int) -> None:
        """Has the next poll begin with a row that stands for rows which are missing, up to an instant."""
        self._gap = at

    @property
    def pending(self) -> int:
        """How many rows wait for a poll."""
        return self._untaken

    def give_back(self, spare: int = 0) -> bool:
        """Returns memory that what is kept and `spare` more rows do not need; whether none is left to return."""
        return self._pipeline.give_back(spare)

    def clear(self) -> None:
        """Lets go of everything: nobody will ask any more."""
        self._pipeline.clear()
        self._out, self._untaken, self._gap = [], 0, None

    @property
    def held(self) -> int:
        """How many rows wait, are counted, or have not been taken by a poll."""
        return self._pipeline.held + self._untaken

    @property
    def due(self) -> int | None:
        """The earliest instant at which something will be emitted without a further triple."""
        return self._pipeline.due

    def live_ids(self) -> list[Ints]:
        """The term ids that are still to be emitted."""
        return [
            *self._pipeline.live_ids(),
            *(delta.ids.ravel() for delta in self._out),
            *(delta.graph for delta in self._out),
        ]

    @property
    def nbytes(self) -> int:
        """The memory of what waits or is counted."""
        return self._pipeline.nbytes

    def memory(self) -> Counter[str]:
        """The memory of the pipeline, by the names of operators."""
        return self._pipeline.memory()

    def state(self) -> State:
        """Everything that is still to be emitted or needed for it."""
        waiting = Delta.concat(self._out, self.width)
        return {
            "pipeline": self._pipeline.state(),
            "out": waiting.columns,
            "dropped": self.dropped,
            "opened": self._opened,
            "gap": self._gap,
            "failure": None if self.failure is None else self.failure.reason,
        }

    def restore(self, state: State) -> None:
        """Goes on where a saved view was."""
        self._pipeline.restore(state["pipeline"])
        self._out, self._untaken = [], 0
        self.dropped, self._gap = state["dropped"], state["gap"]
        self._opened = state["opened"]
        self.failure = None if state["failure"] is None else LimitError(state["failure"])
        if len(state["out"][0]):
            self._emit(Delta(*state["out"]))

    def _show(self, changes: Changes) -> None:
        """Emits changes, each row as often as its weight says."""
        if not len(changes):
            return
        op, many = changes.weight, np.abs(changes.weight)
        if np.count_nonzero(many != 1):
            changes = changes[np.repeat(np.arange(len(changes)), many)]
            op = np.sign(changes.weight)
        none = np.zeros(len(changes), np.int64)
        self._emit(Delta(changes.time, op, none, none, changes.rows))

    def _emit(self, delta: Delta) -> None:
        if self.on_delta is not None:
            self.on_delta(delta)
        if not self.keeps:
            return
        self._out.append(delta)
        self._untaken += len(delta)
        if self.limit is not None and self._untaken > self.limit and self.on_overflow is not None:
            self.on_overflow(self)

    def settled(self, watermark: int) -> int:
        """The last instant to which nothing will be added after a watermark."""
        return watermark - self._whole


class DeltaView(View):
    """No operator: each change with its sign, as soon as it is known."""

    def advance(self, watermark: int) -> None:
        """Emits every change up to the watermark."""
        self._show(self._pipeline.changes(watermark))

    def begin(self, watermark: int) -> None:
        """Begins with the answer at the watermark, as far as it is known."""
        self._begin(watermark, self._pipeline.changes(watermark))


class CutView(View):
    """The first stage of a query: the changes of the rows at its cut, as soon as they are known.

    Signs are weights, and the number of the event is that of the input of the cut.
    """

    def __init__(self, query: Query, arena: Arena, limits: Limits = LIMITS) -> None:
        stages = stages_of(query)
        super().__init__(query, arena, limits, stages.first)
        self.width -= 1  # the last cell is the number of the input
        # The second stage needs the first instant.
        self._pipeline.awaits_start = stages.awaits_start

    def advance(self, watermark: int) -> None:
        """Emits every change up to the watermark."""
        changes = self._pipeline.changes(watermark)
        if len(changes):
            none = np.zeros(len(changes), np.int64)
            rows = changes.rows
            self._emit(Delta(changes.time, changes.weight, none, rows[:, -1], rows[:, :-1]))


class ChangeView(View):
    """ISTREAM or DSTREAM: what entered, or what left, at each complete instant."""

    def __init__(self, query: Query, arena: Arena, limits: Limits = LIMITS, plan: Plan | None = None) -> None:
        super().__init__(query, arena, limits, plan)
        self._sign = 1 if query.operator == "ISTREAM" else -1

    def advance(self, watermark: int) -> None:
        """Shows the wanted side of the instants that the watermark completes."""
        changes = self._pipeline.changes(self.settled(watermark))
        self._show(changes[np.sign(changes.weight) == self._sign])

    def _begin(self, at: int, changes: Changes) -> None:
        """Everything has entered; nothing that was in an answer has left."""
        if self._sign > 0:
            super()._begin(at, changes)


class RelationView(View):
    """RSTREAM: the whole answer at each report.

    It is reported wherever it changes, and at the instants at which a window is reported anyway: steps and periods
    (`report_times`), steps of elements (`tick`). On request, a report of an empty answer is a row of its own; these
    begin when there has been an answer.
    """

    def __init__(self, query: Query, arena: Arena, limits: Limits = LIMITS, plan: Plan | None = None) -> None:
        super().__init__(query, arena, limits, plan)
        self._kept = self.width
        self._ranking = Ranking(query, arena, self._pipeline.lead) if query.ranked else None
        self._answer = self._no_rows()
        if self._ranking is not None:
            self.width = self._ranking.width
        windows = [w for w in query.windows if isinstance(w, Range | Count)]
        self._report_times = [w.report_times for w in windows if w.report_times is not None]
        # How long an answer can live without a further triple; None: for ever.
        bounded = all(isinstance(w, Range) for w in query.windows)
        self._reach = max(w.reach for w in windows) if bounded else None
        self._reports_empty = query.reports_empty
        self._ticks: deque[int] = deque()
        self._reported = NO_TIME

    def _no_rows(self) -> CountedRows | OrderedRows:
        return CountedRows(self._kept) if self._ranking is None else self._ranking.rows()

    def tick(self, reports: Ints) -> None:
        """Takes the instants at which a window by count is reported."""
        if self._ticks and len(reports) and reports[0] < self._ticks[-1]:  # of another window
            self._ticks = deque(sorted({*self._ticks, *reports.tolist()}))
        else:
            self._ticks.extend(reports.tolist())

    def advance(self, watermark: int) -> None:
        """Shows the answer at each report that the watermark completes."""
        until = self.settled(watermark)
        self._check_reports(until)
        changes = self._pipeline.changes(until)
        for start, end in runs(changes.time):
            at = int(changes.time[start])
            self._report_until(at - 1)
            self._answer.add(changes.weight[start:end], changes.rows[start:end])
            self._report(at)
        self._report_until(until)

    def _begin(self, at: int, changes: Changes) -> None:
        """Reports the answer, if there has been one."""
        if len(changes):
            self._answer.add(changes.weight, changes.rows)
            self._report(at)
        while self._ticks and self._ticks[0] <= at:
            self._ticks.popleft()

    def _check_reports(self, until: int) -> None:
        """Refuses a leap in time over so many reports that making them would not end."""
        due = super().due
        if not self._report_times or (self._reported == NO_TIME and due is None):
            return
        begin = self._reported if due is None or self._reported != NO_TIME else due
        leap = until - begin
        if self._reach is not None and not self._reports_empty and not self.has_static:
            leap = min(leap, self._reach)
        reports = leap // min(distance for _, distance in self._report_times)
        if reports > MOST_REPORTS:
            raise DataError(
                f"the leap in time from {show_instant(begin)} to {show_instant(until)} asks for {reports:,} reports, "
                f"and {MOST_REPORTS:,} are the most at once: report less often, or unregister the query"
            )

    @property
    def due(self) -> int | None:
        """The earliest instant at which something will be shown without a further triple."""
        coming = [super().due, self._ticks[0] if self._ticks else None]
        if self._repeats:
            coming.append(self._next(self._reported))
        return min((instant for instant in coming if instant is not None), default=None)

    @property
    def _repeats(self) -> bool:
        """Whether there is something to report at an instant that changes nothing."""
        return self._reported != NO_TIME and (self._reports_empty or len(self._answer) > 0)

    def _report_until(self, until: int) -> None:
        """Makes the reports after the last one, up to `until`; the answer did not change meanwhile."""
        if self._repeats:
            at = self._next(self._reported)
            while at is not None and at <= until:
                self._report(at)
                at = self._next(at)
        while self._ticks and self._ticks[0] <= until:
            self._ticks.popleft()
        if self._reported != NO_TIME:
            self._reported = max(self._reported, until)

    def _next(self, at: int) -> int | None:
        """The first report after `at` that does not need a change."""
        found = [
            origin + ((at - origin) // distance + 1) * distance for origin, distance in self._report_times
        ]
        while self._ticks and self._ticks[0] <= at:
            self._ticks.popleft()
        if self._ticks:
            found.append(self._ticks[0])
        return min(found, default=None)

    def _report(self, at: int) -> None:
        rows, counts = self._answer.content()
        self._reported = at
        if len(rows):
            if self._ranking is not None:
                rows = self._ranking.ranked(np.repeat(rows, counts, axis=0))
                counts = np.ones(len(rows), np.int64)
            self._show(Changes(np.full(len(rows), at, np.int64), counts, rows))
        elif self._reports_empty:
            self._emit(Delta.marker(at, 0, self.width))

    def clear(self) -> None:
        """Lets go of everything: nobody will ask any more."""
        super().clear()
        self._answer = self._no_rows()
        self._ticks.clear()

    def give_back(self, spare: int = 0) -> bool:
        """Returns memory that what is kept and `spare` more rows do not need; whether none is left to return."""
        done = super().give_back(spare)
        return self._answer.give_back(spare) and done

    @property
    def held(self) -> int:
        """How many rows wait, are counted, or have not been taken by a poll."""
        return super().held + len(self._answer)

    @property
    def nbytes(self) -> int:
        """The memory of what waits or is counted."""
        return super().nbytes + self._answer.nbytes

    def live_ids(self) -> list[Ints]:
        """The term ids that are still to be shown."""
        return [*super().live_ids(), self._answer.content()[0].ravel()]

    def state(self) -> State:
        """Everything that the view still has to show or to know."""
        return {
            **super().state(),
            "answer": self._answer.state(),
            "reported": self._reported,
            "ticks": list(self._ticks),
        }

    def restore(self, state: State) -> None:
        """Goes on where a saved view was."""
        super().restore(state)
        self._answer.restore(state["answer"])
        self._reported = state["reported"]
        self._ticks = deque(state["ticks"])


class EventView(View):
    """[NOW]: the answer of each event alone, with the event's time and graph; nothing is taken back."""

    def __init__(self, query: Query, arena: Arena, limits: Limits = LIMITS) -> None:
        super().__init__(query, arena, limits)
        self._ranking = Ranking(query, arena, self._pipeline.lead) if query.ranked else None
        if self._ranking is not None:
            self.width = self._ranking.width
        self._parts: list[tuple[int, Spans]] = []
        self._events = _NO_EVENTS

    @property
    def needs_events(self) -> bool:
        """Whether an event without a match may have an answer."""
        return self._pipeline.needs_events

    def see(self, events: Ints) -> None:
        """Takes the numbers, times and graphs of events, whether they have solutions or not."""
        self._events = np.concatenate([self._events, events])

    def step(self, spans: Spans, leaf: int = 0) -> None:
        """Takes solutions. Where operators need all of an event, they wait: an event may come in parts."""
        if self._pipeline.plain and self._ranking is None:
            rows = spans.bindings[:, : self.width].copy()
            one = np.ones(len(spans), np.int64)
            self._emit(Delta(spans.begin.copy(), one, spans.graph.copy(), spans.event.copy(), rows))
        elif len(spans):
            self._parts.append((leaf, Spans(spans.cells.copy())))

    @property
    def due(self) -> int | None:
        """The instant from which events wait."""
        found = [int(spans.begin[0]) for _, spans in self._parts]
        if len(self._events):
            found.append(int(self._events[:, 1].min()))
        return min(found, default=None)

    def advance(self, watermark: int) -> None:
        """Emits the answers of the events that have come."""
        if not self._parts and not len(self._events):
            return
        (parts, events), (self._parts, self._events) = (self._parts, self._events), ([], _NO_EVENTS)
        event, rows = self._pipeline.event_rows(parts, events)
        if self._ranking is not None:
            event, rows = self._in_order(self._ranking, event, rows)
        # The time and the graph of each event.
        found = [spans.cells[:, [OUT_EVENT, OUT_FROM, OUT_GRAPH]] for _, spans in parts]
        known = np.concatenate([events, *found])
        known = known[np.unique(known[:, 0], return_index=True)[1]]
        _, begin, graph = known[np.searchsorted(known[:, 0], event)].T
        order = np.argsort(begin, kind="stable")
        one = np.ones(len(order), np.int64)
        self._emit(Delta(begin[order], one, graph[order], event[order], rows[order]))

    @staticmethod
    def _in_order(ranking: Ranking, event: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """The rows of each event in their order, with their ranks."""
        listed = ranking.rows(apart=True)
        listed.add(np.ones(len(rows), np.int64), np.concatenate([event[:, None], rows], axis=1))
        found, counts = listed.content()
        found = np.repeat(found, counts, axis=0)
        return found[:, 0], ranking.ranked(found[:, 1:], found[:, 0])

    def live_ids(self) -> list[Ints]:
        """The term ids of rows that wait for a poll, and of the solutions of events that wait."""
        waiting = (spans.cells[:, OUT_GRAPH:].ravel() for _, spans in self._parts)
        return [*super().live_ids(), *waiting, self._events[:, 2]]
