"""Re-evaluation: the answer of every instant from scratch, to compare with and to check against.

Windows are kept as plain columns; at each instant at which a content changes, everything that is alive is matched
anew and the difference to the answer before is handed on. The cost of an instant is the window, not the
change: what continuous engines did before they were incremental (S-Rev of seed 002).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.windows import Arrivals, Count, Entailed, Range, Unbounded, Window
from thalweg.kernels.layout import OUT_BINDINGS, OUT_EVENT, OUT_FROM, OUT_TO, OUT_UNIT, OUT_WEIGHT
from thalweg.kernels.store import CUT, EXPEL, FOREVER, HIDE, INSERT, SHOW
from thalweg.operators.matcher import Matcher
from thalweg.operators.runs import runs
from thalweg.operators.spans import Changes, Spans
from thalweg.plan.program import Program
from thalweg.rdf.events import Rows

Ints = NDArray[np.int64]
Triple = tuple[int, int, int]


class Content:
    """What one window holds, as lifetimes of triples; written apart from the kernels on purpose."""

    def __init__(self, window: Window) -> None:
        self.window = window.window if isinstance(window, Arrivals | Entailed) else window
        self._place: dict[Triple, int] = {}
        self._rows = np.empty((64, 6), np.int64)  # s, p, o, from, to, stamp of the last arrival
        self._used = 0

    def shows(self, time: int) -> int:
        """The first instant at which the window shows what happens at `time`."""
        window = self.window
        if isinstance(window, Range):
            time += window.early
            if window.step is not None:
                time += (window.origin - time) % window.step
        if isinstance(window, Range | Count) and window.period is not None:
            time += (window.origin - time) % window.period
        return time

    def apply(self, op: int, time: int, event: int, triple: Triple) -> list[int]:
        """Inserts or deletes a triple; the instants at which the content changes by it.

        In a window by count, `event` is the number of an element (see `counting`).
        """
        stamp = event if isinstance(self.window, Count) else time
        begin = self.shows(time)
        end = self.shows(time + self.window.width) if isinstance(self.window, Range) else int(FOREVER)
        place = self._place.get(triple)
        alive = place is not None and self._rows[place, 4] > begin
        if op == INSERT:
            if alive:
                self._rows[place, 4:] = max(end, int(self._rows[place, 4])), stamp
            elif begin < end:
                self._place[triple] = self._append((*triple, begin, end, stamp))
            return [begin, end]
        if op == CUT:
            until = max(begin, event)
            if alive and self._rows[place, 4] > until:
                self._rows[place, 4] = until
            return [until]
        if alive and (self._rows[place, 5] == stamp if op == EXPEL else self._rows[place, 5] < stamp):
            self._rows[place, 4] = begin
        return [begin]

    def alive(self, at: int) -> Ints:
        """The triples that are there at an instant."""
        rows = self._rows[: self._used]
        return rows[(rows[:, 3] <= at) & (rows[:, 4] > at), :3]

    def ids(self) -> Ints:
        """The terms of everything that is kept."""
        return self._rows[: self._used, :3].ravel()

    def drop(self, before: int) -> None:
        """Lets go of what ended, once that is most of what is kept."""
        rows = self._rows[: self._used]
        kept = rows[rows[:, 4] > before]
        if 2 * len(kept) > self._used or self._used < 64:
            return
        self._used = len(kept)
        self._rows[: self._used] = kept
        self._place = {tuple(row): place for place, row in enumerate(kept[:, :3].tolist())}

    def _append(self, row: tuple[int, ...]) -> int:
        if self._used == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._used] = row
        self._used += 1
        return self._used - 1


class Reevaluator:
    """Matches whole contents again and again; the solutions that it yields are what came and what went."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._contents = [Content(key[1]) for key in program.stores]
        # Contents are matched as dynamic graphs, each under its own name.
        names = [str(number) for number in range(len(program.stores))]
        self._snapshot = replace(
            program,
            stores=tuple(((name,), Unbounded(), 0, ()) for name in names),
            feeds=np.array([[number, -1] for number in range(len(names))], np.int64),
        )
        self._answer = np.empty((0, 0), np.int64)
        self._instants: list[int] = []
        self.evaluations = 0

    def step(self, feed: Ints, rows: Rows, bound: int) -> Iterator[Spans]:
        """Applies rows in time order and evaluates every instant up to `bound` that changes a content."""
        feeds = self.program.feeds
        if len(feed):
            time, event, _, s, p, o, op = rows.columns
            for start, end in runs(time):
                at = int(time[start])
                yield from self._evaluate(at - 1)
                for k in range(start, end):
                    if op[k] in (HIDE, SHOW):  # whole contents are matched: nothing has to be hidden
                        continue
                    for store in feeds[feed[k]][feeds[feed[k]] >= 0].tolist():
                        changes = self._contents[store].apply(
                            int(op[k]), at, int(event[k]), (int(s[k]), int(p[k]), int(o[k]))
                        )
                        for change in changes:
                            heapq.heappush(self._instants, change)
        yield from self._evaluate(bound)

    def static_content(self, store: int) -> Ints:
        """The triples that a store of static data holds."""
        return self._contents[store].alive(int(FOREVER) - 1)

    def live_ids(self) -> Iterator[Ints]:
        """The term ids that contents and answers use."""
        yield self.program.constants
        yield self._answer[:, OUT_BINDINGS:].ravel()
        for content in self._contents:
            yield content.ids()

    def _evaluate(self, until: int) -> Iterator[Spans]:
        while self._instants and self._instants[0] <= until:
            at = heapq.heappop(self._instants)
            while self._instants and self._instants[0] == at:
                heapq.heappop(self._instants)
            if at != FOREVER:
                yield from self._difference(at)

    def _difference(self, at: int) -> Iterator[Spans]:
        self.evaluations += 1
        contents = [content.alive(at) for content in self._contents]
        for content in self._contents:
            content.drop(at)
        # Static data come first: what they have is one triple with what windows have.
        order = sorted(range(len(contents)), key=lambda k: (self.program.stores[k][0] != (), k))
        feed = np.concatenate([np.full(len(contents[k]), k, np.int64) for k in order])
        s, p, o = np.concatenate([contents[k] for k in order]).T.copy()
        same = np.full(len(s), at, np.int64)
        one = np.ones(len(s), np.int64)
        rows = Rows(same, one, 0 * one, s, p, o, one)
        parts = [part.cells.copy() for part in Matcher(self._snapshot).step(feed, rows)]
        width = OUT_BINDINGS + max((len(unit.shown) for unit in self.program.units), default=0)
        now = np.concatenate([np.empty((0, width), np.int64), *parts])
        now[:, OUT_FROM], now[:, OUT_TO], now[:, OUT_WEIGHT], now[:, OUT_EVENT] = at, FOREVER, 0, 0
        for number, unit in enumerate(
            self.program.units
        ):  # the kernel leaves alone what a unit does not show
            now[now[:, OUT_UNIT] == number, OUT_BINDINGS + len(unit.shown) :] = 0
        both = np.concatenate([now, self._answer.reshape(-1, width)])
        both[:, OUT_FROM] = at
        weights = np.concatenate([np.ones(len(now), np.int64), -np.ones(len(self._answer), np.int64)])
        self._answer = now
        changes = Changes(np.full(len(both), at, np.int64), weights, both).consolidated()
        changed = changes.rows.copy()
        changed[:, OUT_WEIGHT] = changes.weight
        if len(changed):
            yield Spans(changed[np.argsort(changed[:, OUT_UNIT], kind="stable")])
