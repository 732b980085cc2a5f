"""Retraction: a delete on a stream of a sequence takes an event back, and changes the matches.

A delete names the latest event of its stream with the same triples that came at most the window before it, and that
nothing has taken back. What it changes is found by running the sequence over the recent events twice, with the event
and without it: without it there are fewer matches, and, where the event stood between others, more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.operators.sequence_events import Solutions, instants_of
from thalweg.operators.sequence_runs import SequenceRuns
from thalweg.operators.state import State
from thalweg.options import Limits
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import Rows

Ints = NDArray[np.int64]
_TIME, _STREAM, _ORDINAL, _DIGEST = 0, 1, 2, slice(3, 5)
_COLUMNS = 5
KEPT_WINDOWS = 3
"""How many windows back an event can change an answer: one for the delete, two for matches around the event."""


class Retractions:
    """The recent events of a sequence with the solutions of atoms in them, and what deletes make of its matches."""

    def __init__(self, query: Query, arena: Arena, limits: Limits) -> None:
        assert query.sequence is not None
        self._query, self._arena, self._limits = query, arena, limits
        self._within = query.sequence.within
        self._events = np.empty((0, _COLUMNS), np.int64)
        self._solutions = {
            atom.name: Solutions(
                np.empty(0, np.int64), np.empty((0, len(atom.possible)), np.int64), np.empty(0, np.int64)
            )
            for atom in query.sequence.atoms
        }
        self.absent = 0
        """Deletes that named no event."""

    def add(self, feed: Ints, rows: Rows, ordinals: Ints, found: dict[str, Solutions]) -> None:
        """Takes the events of some rows, which have ordinals, and the solutions in them."""
        self._events = np.concatenate([self._events, _described(feed, rows, ordinals)])
        for name, new in found.items():
            old = self._solutions[name]
            assert old.events is not None
            assert new.events is not None
            self._solutions[name] = Solutions(
                np.concatenate([old.times, new.times]),
                np.concatenate([old.rows, new.rows]),
                np.concatenate([old.events, new.events]),
            )

    def apply(self, feed: Ints, rows: Rows) -> tuple[SequenceRuns, Ints, Ints] | None:
        """Takes the events back that the deletes of one instant name.

        Answers the runs without them, and the rows that come and go, with their weights; None if none is named.
        """
        at = int(rows.time[0])
        _, event = np.unique(np.stack([feed, rows.event], axis=1), axis=0, return_inverse=True)
        gone: list[int] = []
        for deleted in _described(feed, rows, event.reshape(-1)):
            place = self._named(deleted, at, gone)
            if place is None:
                self.absent += 1
            else:
                gone.append(place)
        if not gone:
            return None
        since = int(self._events[gone, _TIME].min()) - 2 * self._within
        _, before = self._replayed(since, at - 1)
        ordinals = self._events[gone, _ORDINAL]
        self._events = np.delete(self._events, gone, axis=0)
        for name, one in self._solutions.items():
            assert one.events is not None
            self._solutions[name] = one[~np.isin(one.events, ordinals)]
        runs, after = self._replayed(since, at - 1)
        return (runs, *_difference(before, after))

    def _named(self, deleted: Ints, at: int, gone: list[int]) -> int | None:
        """The place of the event that a delete names."""
        events = self._events
        fits = (events[:, _STREAM] == deleted[_STREAM]) & (events[:, _DIGEST] == deleted[_DIGEST]).all(axis=1)
        fits &= (events[:, _TIME] < at) & (events[:, _TIME] >= at - self._within)
        fits[gone] = False
        places = np.flatnonzero(fits)
        # Ordinals are in the order of time, then of arrival on a stream.
        return int(places[np.argmax(events[places, _ORDINAL])]) if len(places) else None

    def _replayed(self, since: int, until: int) -> tuple[SequenceRuns, Ints]:
        """The runs over the events from one time to another, and their matches: times, and rows beside them."""
        runs = SequenceRuns(self._query, self._arena, self._limits)
        times = self._events[:, _TIME]
        instants = instants_of(np.sort(times[(times >= since) & (times <= until)]))
        found = {
            name: one[(one.times >= since) & (one.times <= until)] for name, one in self._solutions.items()
        }
        at, rows = runs.step(instants, found, until)
        return runs, np.concatenate([at[:, None], rows], axis=1)

    # Memory

    def forget(self, settled: int) -> None:
        """Lets go of events that no delete to come can matter to."""
        until = settled - KEPT_WINDOWS * self._within
        if len(self._events) and self._events[:, _TIME].min() < until:
            self._events = self._events[self._events[:, _TIME] >= until]
            self._solutions = {name: one[one.times >= until] for name, one in self._solutions.items()}

    @property
    def held(self) -> int:
        """How many events and solutions are kept."""
        return len(self._events) + sum(map(len, self._solutions.values()))

    @property
    def nbytes(self) -> int:
        """The memory of what is kept."""
        kept = sum(one.times.nbytes * 2 + one.rows.nbytes for one in self._solutions.values())
        return kept + self._events.nbytes

    def live_ids(self) -> Iterator[Ints]:
        """The term ids that are kept."""
        return (one.rows.ravel() for one in self._solutions.values())

    def state(self) -> State:
        """The recent events."""
        return {
            "events": self._events,
            "solutions": {name: [one.times, one.rows, one.events] for name, one in self._solutions.items()},
            "absent": self.absent,
        }

    def restore(self, state: State) -> None:
        """Goes on with saved events."""
        self._events = np.array(state["events"])
        self._solutions = {name: Solutions(*map(np.array, one)) for name, one in state["solutions"].items()}
        self.absent = state["absent"]


def _described(feed: Ints, rows: Rows, numbers: Ints) -> Ints:
    """A row for each event of some rows, by numbers: its time, its stream, its number, and a digest of its triples."""
    if not len(rows):
        return np.empty((0, _COLUMNS), np.int64)
    triples = np.unique(np.stack([numbers, rows.s, rows.p, rows.o], axis=1), axis=0)
    different, first = np.unique(numbers, return_index=True)
    found = np.empty((len(different), _COLUMNS), np.int64)
    found[:, _TIME], found[:, _STREAM], found[:, _ORDINAL] = rows.time[first], feed[first], different
    place = np.searchsorted(different, triples[:, 0])
    for column, seed in enumerate((0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F), 3):
        total = np.zeros(len(different), np.uint64)
        mixed = np.full(len(triples), seed, np.uint64)
        for term in triples[:, 1:].T:
            mixed = (mixed ^ term.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(31)
        mixed[triples[:, 1] == 0] = 0  # a marker is no triple
        np.add.at(total, place, mixed)
        found[:, column] = total.view(np.int64)
    return found


def _difference(before: Ints, after: Ints) -> tuple[Ints, Ints]:
    """The weights and the rows of matches that are in one of two multisets; the first column, their time, tells
    matches apart and is no part of the rows.
    """
    both = np.concatenate([before, after])
    sign = np.repeat(np.array([-1, 1], np.int64), [len(before), len(after)])
    different, inverse = np.unique(both, axis=0, return_inverse=True)
    weights = np.zeros(len(different), np.int64)
    np.add.at(weights, inverse.reshape(-1), sign)
    changed = weights != 0
    weights, rows = weights[changed], different[changed, 1:]
    many = np.abs(weights)
    return np.repeat(np.sign(weights), many), np.repeat(rows, many, axis=0)
