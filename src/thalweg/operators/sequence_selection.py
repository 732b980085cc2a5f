"""Selection: which matches of a sequence are reported where one match may exclude others.

AFTER MATCH SKIP and CONSUME take matches one by one: in the order of the instants at which they are known, those of one
instant by the times of their events, then by streams and arrival, then by the text of the row. Each value of PARTITION
BY is on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.sequences import CHRONOLOGICAL, PAST_LAST, RECENT, TO_FIRST, TO_NEXT, Sequence
from thalweg.kernels.times import NO_TIME
from thalweg.operators.sequence_trails import Trail, Trails
from thalweg.operators.state import State
from thalweg.plan.automaton import Automaton

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Texts = Callable[[Ints], list[tuple[str, ...]]]
"""The texts of rows of ids, as they are compared."""


class Selection:
    """What earlier matches leave to later ones: where these may begin, or which events are used."""

    def __init__(self, sequence: Sequence, automaton: Automaton, trails: Trails, texts: Texts) -> None:
        self._skip, self._consume = sequence.skip, sequence.consume
        self._within = sequence.within
        self._trails = trails
        self._texts = texts
        skip = sequence.skip
        atoms = [state.use.atom for state in automaton.states]
        self._marked = {k for k, atom in enumerate(atoms) if skip is not None and atom == skip.atom}
        self._points: dict[int, int] = {}
        """By the value of the partition: the first time at which a match may begin."""
        self._used: dict[int, dict[int, int]] = {}
        """By the value of the partition: the events that matches have used, and their times."""

    def select(self, at: Ints, rows: Ints, ends: Ints, values: Ints) -> NDArray[np.intp]:
        """The places of the matches that are reported, in the order in which they are taken."""
        found = self._trails.of(ends)
        firsts = np.array([trail.times[0] for trail in found], np.int64)
        open_ones = np.flatnonzero(self.may_begin(firsts, values)).tolist()
        recent = self._consume == RECENT
        taken: list[int] = []
        seen: set[tuple[int, int]] = set()
        for place in self._in_order(open_ones, at, rows, found, recent):
            trail, value = found[place], int(values[place])
            if recent:
                key = value, trail.events[-1]
                if key in seen:
                    continue
                seen.add(key)
            elif self._consume == CHRONOLOGICAL:
                used = self._used.setdefault(value, {})
                if not used.keys().isdisjoint(trail.events):
                    continue
                used.update(zip(trail.events, trail.times, strict=True))
            elif trail.times[0] < self._points.get(value, NO_TIME):
                continue
            else:
                point = self._point_after(trail)
                if point is not None:
                    self._points[value] = point
            taken.append(place)
        return np.array(taken, np.intp)

    def _in_order(
        self, places: list[int], at: Ints, rows: Ints, found: list[Trail], recent: bool
    ) -> Iterator[int]:
        """Matches in the order in which they are taken; those that only the row distinguishes by its text."""

        def key(place: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
            trail = found[place]
            if recent:  # the latest first, from the last event backwards
                return (
                    int(at[place]),
                    tuple(-time for time in reversed(trail.times)),
                    tuple(-event for event in reversed(trail.events)),
                )
            return int(at[place]), trail.times, trail.events

        for _, group in groupby(sorted(places, key=key), key):
            same = list(group)
            if len(same) > 1:
                texts = dict(zip(same, self._texts(rows[same]), strict=True))
                same.sort(key=lambda place: (texts[place], self._rank(found[place])))
            yield from same

    def _rank(self, trail: Trail) -> int:
        point = self._point_after(trail) if self._skip is not None else None
        return NO_TIME if point is None else point

    def _point_after(self, trail: Trail) -> int | None:
        """Where a match may begin after one; None: anywhere, for it has no event of the atom that SKIP names."""
        assert self._skip is not None
        kind = self._skip.kind
        if kind == PAST_LAST:
            return trail.times[-1] + 1
        if kind == TO_NEXT:
            return trail.times[0] + 1
        times = [time for time, state in zip(trail.times, trail.states, strict=True) if state in self._marked]
        return None if not times else times[0] if kind == TO_FIRST else times[-1]

    # What can still become a match

    def may_begin(self, firsts: Ints, values: Ints) -> Bools:
        """Which runs begin where a match still may."""
        if not self._points:
            return np.ones(len(firsts), np.bool_)
        known = np.array(sorted(self._points), np.int64)
        points = np.array([self._points[value] for value in known.tolist()], np.int64)
        place = np.minimum(np.searchsorted(known, values), len(known) - 1)
        return (known[place] != values) | (firsts >= points[place])

    def may_go_on(self, firsts: Ints, values: Ints, ends: Ints) -> Bools:
        """Which runs can still become matches that are reported."""
        kept = self.may_begin(firsts, values)
        for value, used in self._used.items():
            mine = np.flatnonzero(values == value)
            if len(mine) and used:
                kept[mine] &= ~self._trails.passes(ends[mine], np.fromiter(used, np.int64))
        return kept

    def forget(self, until: int) -> None:
        """Lets go of what is about events before a time."""
        self._points = {value: point for value, point in self._points.items() if point >= until}
        for value, used in list(self._used.items()):
            kept = {event: time for event, time in used.items() if time >= until}
            if kept:
                self._used[value] = kept
            else:
                del self._used[value]

    def live_ids(self) -> list[Ints]:
        """The term ids of partitions."""
        return [np.fromiter((*self._points, *self._used), np.int64)]

    def clear(self) -> None:
        """Lets go of everything."""
        self._points, self._used = {}, {}

    def state(self) -> State:
        """What earlier matches leave."""
        return {
            "points": [list(pair) for pair in self._points.items()],
            "used": [[value, [list(pair) for pair in used.items()]] for value, used in self._used.items()],
        }

    def restore(self, state: State) -> None:
        """Goes on where a saved one was."""
        self._points = dict(state["points"])
        self._used = {value: dict(used) for value, used in state["used"]}
