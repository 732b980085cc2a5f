"""Arrivals: the feed of the times at which the triples of a window last arrived, made of the rows of its streams.

Each triple is a node with its subject, predicate, object and times (`algebra.windows.Arrivals`). These rows enter a
store of their own, which expires them as the window does. A triple that arrives again gets the new time: the old one is
deleted at that instant. A delete of the triple deletes its node. So patterns over the store join a triple and its time,
and the match kernel treats them like any others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.terms import XSD
from thalweg.algebra.windows import MILLISECONDS, OBJECT, PREDICATE, SUBJECT, TIME, Arrivals, Range
from thalweg.instants import show_instant
from thalweg.kernels.store import DELETE, INSERT
from thalweg.operators.runs import runs
from thalweg.operators.state import State
from thalweg.rdf.events import Rows

Ints = NDArray[np.int64]
Triple = tuple[int, int, int]
_FEW = 256


class ArrivalTimes:
    """State of the arrivals of one window over some streams of a streamset."""

    def __init__(
        self, window: Arrivals, streams: Sequence[int], wanted: Ints | None, intern: Callable[[bytes], int]
    ) -> None:
        """`streams` are numbers of feeds, `wanted` the predicates of an arrival that patterns name, None: all."""
        self.window = window
        self._streams = np.array(sorted(streams), np.int64)
        self._intern = intern
        names = (SUBJECT, PREDICATE, OBJECT, TIME, MILLISECONDS)
        self._predicates = [intern(name.text.encode()) for name in names]
        self._asked = [wanted is None or id in wanted for id in self._predicates]
        self._patterns = [
            [None if term is None else intern(term.text.encode()) for term in pattern]
            for pattern in window.wanted
        ]
        self._last: dict[Triple, int] = {}
        self._kept = _FEW

    def step(self, feed: Ints, rows: Rows, bound: int) -> tuple[Rows, Ints]:
        """Takes rows in time order up to `bound`; gives the rows of its own feed, and no reports."""
        made: list[tuple[int, int, int, int, int, int]] = []
        chosen = np.isin(feed, self._streams) & self._fits(rows)
        if chosen.any():
            rows = rows[chosen]
            for begin, end in runs(rows.time):
                made += self._instant(rows[begin:end])
        if len(self._last) > 2 * self._kept:
            self._drop(bound)
        if not made:
            return Rows.empty(), np.empty(0, np.int64)
        time, event, s, p, o, op = np.array(made, np.int64).T
        return Rows(time, event, np.zeros(len(time), np.int64), s, p, o, op), np.empty(0, np.int64)

    def _fits(self, rows: Rows) -> NDArray[np.bool_]:
        """The rows that fit a pattern."""
        found = np.zeros(len(rows), np.bool_)
        for pattern in self._patterns:
            fits = rows.s != 0  # a marker is no triple
            for term, column in zip(pattern, (rows.s, rows.p, rows.o), strict=True):
                if term is not None:
                    fits &= column == term
            found |= fits
        return found

    def _instant(self, rows: Rows) -> Iterator[tuple[int, int, int, int, int, int]]:
        """The rows of the feed for some rows of one instant: deletes come first."""
        now, event = int(rows.time[0]), int(rows.event[0])
        gone, come = (
            dict.fromkeys(zip(*(column[chosen].tolist() for column in (rows.s, rows.p, rows.o)), strict=True))
            for chosen in (rows.op != INSERT, rows.op == INSERT)
        )
        for triple in gone:
            last = self._last.get(triple, now)
            if last < now:  # what comes at this instant comes after the delete
                del self._last[triple]
                if self._is_alive(last, now):
                    yield from self._made(triple, last, now, event, DELETE)
        new = [triple for triple in come if self._last.get(triple) != now]
        for triple in new:
            last = self._last.get(triple, now)
            if last < now and self._is_alive(last, now):
                yield from self._made(triple, last, now, event, DELETE, times_only=True)
        for triple in new:
            self._last[triple] = now
            yield from self._made(triple, now, now, event, INSERT)

    def _made(
        self, triple: Triple, arrived: int, now: int, event: int, op: int, *, times_only: bool = False
    ) -> Iterator[tuple[int, int, int, int, int, int]]:
        """The rows of a triple that arrived at some time."""
        key = self._intern(f'"{" ".join(map(str, triple))}"^^<urn:thalweg:triple>'.encode())
        for k in range(3 if times_only else 0, 5):
            if self._asked[k]:
                value = triple[k] if k < 3 else self._intern(_TEXTS[k](arrived).encode())
                yield now, event, key, self._predicates[k], value, op

    def _is_alive(self, arrived: int, now: int) -> bool:
        """Whether the window still has a triple at an instant that it has not got again."""
        window = self.window.window
        return _shown(window, arrived + window.width) > _shown(window, now)

    def _drop(self, bound: int) -> None:
        """Forgets triples that have left the window."""
        self._last = {triple: time for triple, time in self._last.items() if self._is_alive(time, bound)}
        self._kept = max(_FEW, len(self._last))

    def state(self) -> State:
        """The latest arrivals."""
        return {"arrivals": self._table()}

    def restore(self, state: State) -> None:
        """Goes on where a saved one was."""
        self._last = {(s, p, o): time for s, p, o, time in state["arrivals"].tolist()}

    def _table(self) -> Ints:
        rows = [(*triple, time) for triple, time in self._last.items()]
        return np.array(rows, np.int64).reshape(len(rows), 4)

    def live_ids(self) -> list[Ints]:
        """The terms of triples that may be deleted or come again, and constants."""
        constants = [id for pattern in self._patterns for id in pattern if id is not None]
        return [self._table()[:, :3].ravel(), np.array([*self._predicates, *constants], np.int64)]

    def clear(self) -> None:
        """Releases everything: there will be no further call."""
        self._last = {}

    @property
    def held(self) -> int:
        """How many triples are kept."""
        return len(self._last)

    @property
    def nbytes(self) -> int:
        """The memory of the triples that are kept: an estimate, since they are Python's."""
        return 250 * len(self._last)


_TEXTS: dict[int, Callable[[int], str]] = {
    3: lambda time: f'"{show_instant(time)}"^^<{XSD}dateTime>',
    4: lambda time: f'"{time // 1000}"^^<{XSD}integer>',
}
"""The values of an arrival that are times, by the place of their predicates."""


def _shown(window: Range, time: int) -> int:
    """The first instant at which a window shows what happens at some time."""
    time += window.early
    for distance in (window.step, window.period):
        if distance is not None:
            time += (window.origin - time) % distance
    return time
