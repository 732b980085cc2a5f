"""Views: how the changing answer of a query becomes a stream of rows (relation to stream).

All views are made of one thing, the signed rows of the timeline. Deltas are shown as soon as they are known, an
instant possibly in parts. RSTREAM, ISTREAM and DSTREAM speak of an instant once, when it is complete.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.windows import Count, Range
from thalweg.errors import DataError
from thalweg.instants import show_instant
from thalweg.kernels.layout import OUT_BINDINGS, OUT_FROM, OUT_GRAPH, OUT_TO
from thalweg.operators.runs import runs
from thalweg.operators.state import State
from thalweg.operators.template import Template
from thalweg.operators.timeline import CountedRows, Timeline, consolidate
from thalweg.plan.program import shown_variables
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
_NEVER = int(np.iinfo(np.int64).min)
MOST_REPORTS = 10_000_000
"""Reports of RSTREAM that one step of time may ask for."""


@dataclass(frozen=True)
class Delta:
    """A batch of result rows: time, sign, ids of the bindings; of [NOW] also the graph and the number of the event.

    Sign 0 is a report with an empty answer; its ids are 0.
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
        """The signs as rows show them: `+`, `-`, or `0` for a report with an empty answer."""
        return ["0+-"[op] for op in self.op.tolist()]

    @classmethod
    @cache
    def empty(cls, width: int) -> Delta:
        """A delta without rows."""
        none = np.empty(0, np.int64)
        return cls(none, none, none, none, np.empty((0, width), np.int64))

    @classmethod
    def concat(cls, deltas: list[Delta], width: int) -> Delta:
        """Several deltas as one, in time order."""
        if len(deltas) == 1:
            return deltas[0]
        if not deltas:
            return cls.empty(width)
        joined = cls(*map(np.concatenate, zip(*(delta.columns for delta in deltas), strict=True)))
        if (joined.at[1:] < joined.at[:-1]).any():
            return joined[np.argsort(joined.at, kind="stable")]
        return joined


def view_of(query: Query, arena: Arena) -> View:
    """The view that a query asks for; its terms are in the arena."""
    if query.per_event:
        return EventView(query, arena)
    if query.operator is None:
        return DeltaView(query, arena)
    if query.operator == "RSTREAM":
        return RelationView(query, arena)
    return ChangeView(query, arena)


class View:
    """Turns solutions with a lifetime into deltas. `step` takes solutions, `advance` a watermark.

    With a template, what is shown is the set of the triples that the solutions give.
    """

    def __init__(self, query: Query, arena: Arena) -> None:
        self.width = self._bound = len(shown_variables(query))
        self.distinct = query.distinct
        self._template: Template | None = None
        if query.template is not None:
            self._template = Template(query, arena)
            self.width, self.distinct = 3, True
        # Where windows hold what came strictly before an instant, nothing can be added to it when the
        # watermark is there. Any other instant is complete once it is passed.
        windows = [source.window for source in query.sources]
        self._whole = 0 if all(isinstance(w, Range) and w.early for w in windows) else 1
        self._timeline = Timeline(self._bound)
        self._counts = CountedRows(self.width)
        self._out: list[Delta] = []
        self.on_delta: Callable[[Delta], None] | None = None
        """Called with each delta, for the stream that is derived from this query."""
        self._untaken = 0

    def step(self, solutions: Ints) -> None:
        """Takes solutions as the match kernel writes them; the array may be reused afterwards."""
        self._timeline.schedule(solutions)

    def tick(self, reports: Ints) -> None:
        """Hears at which instants a window by count is reported; only RSTREAM repeats an answer then."""

    def advance(self, watermark: int) -> None:
        """Shows what is settled by the watermark."""
        raise NotImplementedError

    def poll(self) -> Delta:
        """Everything since the last poll, in time order."""
        deltas, self._out, self._untaken = self._out, [], 0
        return Delta.concat(deltas, self.width)

    def give_back(self, spare: int = 0) -> bool:
        """Returns memory that what is kept and `spare` more rows do not need; whether none is left to return."""
        done = self._timeline.give_back(spare)
        return self._counts.give_back(spare) and done

    def clear(self) -> None:
        """Lets go of everything: nobody will ask any more."""
        self._timeline, self._counts = Timeline(self._bound), CountedRows(self.width)
        self.poll()

    @property
    def held(self) -> int:
        """How many rows wait, are counted, or have not been taken by a poll."""
        return len(self._timeline) + len(self._counts) + self._untaken

    @property
    def due(self) -> int | None:
        """The earliest instant at which something will be shown without a further triple."""
        return self._timeline.due

    def live_ids(self) -> list[Ints]:
        """The term ids that are still to be shown."""
        return [
            *([self._template.constants] if self._template is not None else []),
            self._timeline.rows().ravel(),
            self._counts.content()[0].ravel(),
            *(delta.ids.ravel() for delta in self._out),
            *(delta.graph for delta in self._out),
        ]

    @property
    def nbytes(self) -> int:
        """The memory of what waits or is counted."""
        return self._timeline.nbytes + self._counts.nbytes

    def state(self) -> State:
        """Everything that the view still has to show or to know."""
        waiting = Delta.concat(self._out, self.width)
        return {
            "timeline": self._timeline.state(),
            "counts": self._counts.state(),
            "out": waiting.columns,
        }

    def restore(self, state: State) -> None:
        """Goes on where a saved view was."""
        self._timeline.restore(state["timeline"])
        self._counts.restore(state["counts"])
        self._out, self._untaken = [], 0
        if len(state["out"][0]):
            self._emit(Delta(*state["out"]))

    def _changes(self, until: int) -> tuple[Ints, Ints, Ints]:
        """The netted changes due at or before `until`; of a set, those of the set."""
        times, weights, rows = self._timeline.pop(until)
        if self._template is not None and len(times):
            origin, rows = self._template.triples(rows)
            times, weights = times[origin], weights[origin]
        times, weights, rows = consolidate(times, weights, rows)
        if self.distinct and len(times):
            changes = self._counts.add(weights, rows)
            kept = changes != 0
            times, weights, rows = times[kept], changes[kept], rows[kept]
        return times, weights, rows

    def _show(self, times: Ints, weights: Ints, rows: Ints) -> None:
        if not len(times):
            return
        many = np.abs(weights)
        if (many != 1).any():
            times, weights, rows = (np.repeat(column, many, axis=0) for column in (times, weights, rows))
        none = np.zeros(len(times), np.int64)
        self._emit(Delta(times, np.sign(weights), none, none, rows))

    def _emit(self, delta: Delta) -> None:
        self._out.append(delta)
        self._untaken += len(delta)
        if self.on_delta is not None:
            self.on_delta(delta)

    def settled(self, watermark: int) -> int:
        """The last instant to which nothing will be added after a watermark."""
        return watermark - self._whole


class DeltaView(View):
    """No operator: each change with its sign, as soon as it is known."""

    def advance(self, watermark: int) -> None:
        """Shows every change up to the watermark."""
        due = self._timeline.due
        if due is not None and due <= watermark:
            self._show(*self._changes(watermark))


class ChangeView(View):
    """ISTREAM or DSTREAM: what entered, or what left, at each complete instant."""

    def __init__(self, query: Query, arena: Arena) -> None:
        super().__init__(query, arena)
        self._sign = 1 if query.operator == "ISTREAM" else -1

    def advance(self, watermark: int) -> None:
        """Shows the wanted side of the instants that the watermark completes."""
        times, weights, rows = self._changes(self.settled(watermark))
        wanted = np.sign(weights) == self._sign
        self._show(times[wanted], weights[wanted], rows[wanted])


class RelationView(View):
    """RSTREAM: the whole answer at each report.

    It is reported wherever it changes, and at the instants at which a window is reported anyway: steps and periods
    (`looks`), steps of elements (`tick`). Asked for, a report of an empty answer is a row of its own; these begin
    when there has been an answer.
    """

    def __init__(self, query: Query, arena: Arena) -> None:
        super().__init__(query, arena)
        self._answer = CountedRows(self.width)
        windows = [w for w in (source.window for source in query.sources) if isinstance(w, Range | Count)]
        self._looks = [w.looks for w in windows if w.looks is not None]
        # How long an answer can live without a further triple; None: for ever.
        bounded = all(isinstance(source.window, Range) for source in query.sources)
        self._reach = max(w.reach for w in windows) if bounded else None
        self._tell_empty = query.tells_empty
        self._ticks: deque[int] = deque()
        self._reported = _NEVER

    def tick(self, reports: Ints) -> None:
        """Hears at which instants a window by count is reported."""
        if self._ticks and len(reports) and reports[0] < self._ticks[-1]:  # of another window
            self._ticks = deque(sorted({*self._ticks, *reports.tolist()}))
        else:
            self._ticks.extend(reports.tolist())

    def advance(self, watermark: int) -> None:
        """Shows the answer at each report that the watermark completes."""
        until = self.settled(watermark)
        self._check_reports(until)
        times, weights, rows = self._changes(until)
        for start, end in runs(times):
            at = int(times[start])
            self._report_until(at - 1)
            self._answer.add(weights[start:end], rows[start:end])
            self._report(at)
        self._report_until(until)

    def _check_reports(self, until: int) -> None:
        """Refuses a leap in time over so many reports that making them would not end."""
        due = super().due
        if not self._looks or (self._reported == _NEVER and due is None):
            return
        begin = self._reported if due is None or self._reported != _NEVER else due
        leap = until - begin
        if self._reach is not None and not self._tell_empty:
            leap = min(leap, self._reach)
        reports = leap // min(distance for _, distance in self._looks)
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
        return self._reported != _NEVER and (self._tell_empty or len(self._answer) > 0)

    def _report_until(self, until: int) -> None:
        """Makes the reports after the last one, up to `until`; the answer did not change meanwhile."""
        if self._repeats:
            at = self._next(self._reported)
            while at is not None and at <= until:
                self._report(at)
                at = self._next(at)
        while self._ticks and self._ticks[0] <= until:
            self._ticks.popleft()
        if self._reported != _NEVER:
            self._reported = max(self._reported, until)

    def _next(self, at: int) -> int | None:
        """The first report after `at` that does not need a change."""
        found = [origin + ((at - origin) // distance + 1) * distance for origin, distance in self._looks]
        while self._ticks and self._ticks[0] <= at:
            self._ticks.popleft()
        if self._ticks:
            found.append(self._ticks[0])
        return min(found, default=None)

    def _report(self, at: int) -> None:
        rows, counts = self._answer.content()
        self._reported = at
        if len(rows):
            self._show(np.full(len(rows), at, np.int64), counts, rows)
        elif self._tell_empty:
            nothing = np.zeros(1, np.int64)
            empty = np.zeros((1, self.width), np.int64)
            self._emit(Delta(np.full(1, at, np.int64), nothing, nothing, nothing, empty))

    def clear(self) -> None:
        """Lets go of everything: nobody will ask any more."""
        super().clear()
        self._answer = CountedRows(self.width)
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

    def __init__(self, query: Query, arena: Arena) -> None:
        super().__init__(query, arena)
        self._parts: list[Delta] = []

    def step(self, solutions: Ints) -> None:
        """Shows solutions; of sets, once all solutions of the events are there: they may come in parts."""
        rows = solutions[:, OUT_BINDINGS : OUT_BINDINGS + self._bound]
        if self._template is not None:
            origin, rows = self._template.triples(rows)
            solutions = solutions[origin]
        part = Delta(
            solutions[:, OUT_FROM].copy(),
            np.ones(len(solutions), np.int64),
            solutions[:, OUT_GRAPH].copy(),
            solutions[:, OUT_TO].copy(),  # where the kernel writes the number of the event
            rows.copy(),
        )
        if not self.distinct:
            self._emit(part)
        elif len(part):
            self._parts.append(part)

    @property
    def due(self) -> int | None:
        """The instant from which events wait."""
        return int(self._parts[0].at[0]) if self._parts else None

    def advance(self, watermark: int) -> None:
        """Shows the sets of the events that have come."""
        if self._parts:
            delta, self._parts = Delta.concat(self._parts, self.width), []
            cells = np.concatenate([delta.event[:, None], delta.ids], axis=1)
            self._emit(delta[np.sort(np.unique(cells, axis=0, return_index=True)[1])])
