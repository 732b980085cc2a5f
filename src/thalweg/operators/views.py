"""Views: how the changing answer of a query becomes a stream of rows (relation to stream).

All views are made of one thing, the signed rows of the timeline. Deltas are shown as soon as they are known, an
instant possibly in parts. RSTREAM, ISTREAM and DSTREAM speak of an instant once, when it is complete.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.nodes import Query
from thalweg.algebra.windows import Count, Range
from thalweg.kernels.layout import OUT_BINDINGS, OUT_FROM, OUT_GRAPH, OUT_TO
from thalweg.operators.runs import runs
from thalweg.operators.state import State
from thalweg.operators.template import Template
from thalweg.operators.timeline import CountedRows, Timeline, consolidate
from thalweg.plan.program import shown_variables
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
_NEVER = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Delta:
    """A batch of result rows: time, sign, graph of the event ([NOW] only, else 0), ids of the bindings.

    Sign 0 is a report with an empty answer; its ids are 0.
    """

    at: Ints
    op: Ints
    graph: Ints
    ids: Ints

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, rows: slice | NDArray[np.bool_]) -> Delta:
        return Delta(self.at[rows], self.op[rows], self.graph[rows], self.ids[rows])

    @property
    def signs(self) -> list[str]:
        """The signs as rows show them: `+`, `-`, or `0` for a report with an empty answer."""
        return ["0+-"[op] for op in self.op.tolist()]

    @classmethod
    @cache
    def empty(cls, width: int) -> Delta:
        """A delta without rows."""
        none = np.empty(0, np.int64)
        return cls(none, none, none, np.empty((0, width), np.int64))

    @classmethod
    def concat(cls, deltas: list[Delta], width: int) -> Delta:
        """Several deltas as one, in time order."""
        if len(deltas) == 1:
            return deltas[0]
        if not deltas:
            return cls.empty(width)
        at = np.concatenate([delta.at for delta in deltas])
        op = np.concatenate([delta.op for delta in deltas])
        graph = np.concatenate([delta.graph for delta in deltas])
        ids = np.concatenate([delta.ids for delta in deltas])
        if (at[1:] < at[:-1]).any():
            order = np.argsort(at, kind="stable")
            at, op, graph, ids = at[order], op[order], graph[order], ids[order]
        return cls(at, op, graph, ids)


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
            "out": [waiting.at, waiting.op, waiting.graph, waiting.ids],
        }

    def restore(self, state: State) -> None:
        """Goes on where a saved view was."""
        self._timeline.restore(state["timeline"])
        self._counts.restore(state["counts"])
        self._out, self._untaken = [], 0
        if len(state["out"][0]):
            self._tell(Delta(*state["out"]))

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
        self._tell(Delta(times, np.sign(weights), np.zeros(len(times), np.int64), rows))

    def _tell(self, delta: Delta) -> None:
        self._out.append(delta)
        self._untaken += len(delta)


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
        times, weights, rows = self._changes(watermark - self._whole)
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
        until = watermark - self._whole
        times, weights, rows = self._changes(until)
        for start, end in runs(times):
            at = int(times[start])
            self._report_until(at - 1)
            self._answer.add(weights[start:end], rows[start:end])
            self._report(at)
        self._report_until(until)

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
            self._tell(Delta(np.full(1, at, np.int64), nothing, nothing, np.zeros((1, self.width), np.int64)))

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

    def step(self, solutions: Ints) -> None:
        """Shows the solutions of whole events at once."""
        rows = solutions[:, OUT_BINDINGS : OUT_BINDINGS + self._bound]
        if self._template is not None:
            origin, rows = self._template.triples(rows)
            solutions = solutions[origin]
        if self.distinct:
            # The kernel writes the event's number as the end of a [NOW] solution.
            told = np.concatenate([solutions[:, [OUT_TO]], rows], axis=1)
            first = np.sort(np.unique(told, axis=0, return_index=True)[1])
            solutions, rows = solutions[first], rows[first]
        self._tell(
            Delta(
                solutions[:, OUT_FROM].copy(),
                np.ones(len(solutions), np.int64),
                solutions[:, OUT_GRAPH].copy(),
                rows.copy(),
            )
        )

    def advance(self, watermark: int) -> None:
        """Nothing waits for time."""
