"""The atoms of a sequence as [NOW] queries of their streams, and their solutions in the events of complete instants."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.sequences import Atom
from thalweg.kernels.times import NO_TIME
from thalweg.operators.runs import in_time_order
from thalweg.operators.sequence_events import Solutions
from thalweg.operators.streamset import Streamset
from thalweg.operators.views import Delta, View
from thalweg.options import Limits
from thalweg.plan.compile import shown_variables
from thalweg.plan.program import Interner
from thalweg.plan.sequence_atoms import Asking, askings_of, shape_of
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import Rows
from thalweg.static.data import StaticData

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Ordinals:
    """Events numbered in the order of time, of the names of streams, and of arrival, from a number on."""

    def __init__(self, rows: Rows, first: int) -> None:
        pairs = np.stack([rows.time, rows.event], axis=1)
        self._pairs, place = np.unique(pairs, axis=0, return_index=True)
        self._numbers = np.empty(len(place), np.int64)
        self._numbers[np.argsort(place)] = first + np.arange(len(place))

    def __len__(self) -> int:
        return len(self._numbers)

    def __call__(self, times: Ints, events: Ints) -> Ints:
        """The ordinals of some of the events."""
        both = np.concatenate([self._pairs, np.stack([times, events], axis=1)])
        _, inverse = np.unique(both, axis=0, return_inverse=True)
        return self._numbers[inverse.reshape(-1)[len(self._pairs) :]]


class _Columns:
    """An atom's columns in the rows of a view: `names` are what this atom calls the columns of the view."""

    def __init__(self, atom: Atom, names: list[str], arena: Arena) -> None:
        query = atom.query
        self._places = [names.index(name) if name in names else -1 for name in atom.possible]
        fixed = dict(query.fixed) if query.flat else {}
        self._fixed = [
            arena.intern(fixed[name].text.encode()) if name in fixed and place < 0 else 0
            for name, place in zip(atom.possible, self._places, strict=True)
        ]

    def solutions(self, delta: Delta, ordinals: Ordinals | None) -> Solutions:
        """Rows in the order of time as solutions of the atom; with the ordinals of their events."""
        rows = np.empty((len(delta), len(self._places)), np.int64)
        for column, (place, constant) in enumerate(zip(self._places, self._fixed, strict=True)):
            rows[:, column] = delta.ids[:, place] if place >= 0 else constant
        return Solutions(delta.at, rows, None if ordinals is None else ordinals(delta.at, delta.event))

    @property
    def constants(self) -> Ints:
        """The ids of variables that have one value."""
        return np.array(self._fixed, np.int64)


class Atoms:
    """All atoms of a sequence. Those that are one query up to the names of variables have one view."""

    def __init__(self, query: Query, arena: Arena, limits: Limits, static: StaticData | None) -> None:
        assert query.sequence is not None
        self._askings = askings_of(query.sequence)
        self._views: list[View] = []
        self._columns: dict[str, _Columns] = {}
        self.inner: dict[str, Streamset] = {}
        """The streamsets of the queries: one of each stream for those that are asked of every event, and more."""
        self._keys: list[str] = []
        for number, asking in enumerate(self._askings):
            first = asking.atoms[0]
            key = f"{number} {asking.stream}" if asking.evidence else asking.stream
            if key not in self.inner:
                self.inner[key] = Streamset((asking.stream,), static=static)
            self._keys.append(key)
            self._views.append(self.inner[key].add(first.query, arena, limits))
            names = list(shown_variables(first.query) if first.query.flat else first.query.columns)
            shape = shape_of(first)
            for atom in asking.atoms:
                mine, own = names, shape_of(atom)
                if shape is not None and own is not None:
                    mine = [own[1][shape[1].index(name)] for name in names]
                self._columns[atom.name] = _Columns(atom, mine, arena)

    def ask(
        self, streams: list[str], feed: Ints, rows: Rows, bound: int, intern: Interner
    ) -> list[tuple[tuple[Atom, ...], Delta]]:
        """The rows of all queries in the events of some rows, in the order of time."""
        for stream in {one.stream for one in self._askings if not one.evidence}:
            # Static data may answer an event of which no triple is left: then its marker counts.
            mine = self._events(self.inner[stream], feed == streams.index(stream), rows)
            self._run(stream, stream, mine, bound, intern)
        found: list[Delta] = []
        for asking, key, view in zip(self._askings, self._keys, self._views, strict=True):
            if asking.evidence:
                of_stream = feed == streams.index(asking.stream)
                chosen = of_stream & self._has_evidence(asking, streams, feed, rows.time, found)
                mine = self._events(self.inner[key], chosen, rows)
                if len(mine):
                    self._run(key, asking.stream, mine, bound, intern)
            delta = view.poll()
            # What static data alone answer comes before the other solutions of a batch.
            if not in_time_order(delta.at):
                delta = delta[np.argsort(delta.at, kind="stable")]
            found.append(delta)
        return [(asking.atoms, delta) for asking, delta in zip(self._askings, found, strict=True)]

    def solutions(self, atom: Atom, delta: Delta, ordinals: Ordinals | None) -> Solutions:
        """The rows of its query as solutions of an atom."""
        return self._columns[atom.name].solutions(delta, ordinals)

    def _events(self, inner: Streamset, chosen: Bools, rows: Rows) -> Rows:
        if not len(rows):
            return rows
        return rows[chosen & ((rows.s != 0) | inner.counts_events)]

    def _run(self, key: str, stream: str, rows: Rows, bound: int, intern: Interner) -> None:
        inner = self.inner[key]
        if len(rows) and inner.awaits_start:
            inner.open(int(rows.time[0]))
        inner.push(stream, rows, int(rows.time.max(initial=NO_TIME)), bound - 1)
        inner.run(intern)

    def _has_evidence(
        self, asking: Asking, streams: list[str], feed: Ints, times: Ints, found: list[Delta]
    ) -> Bools:
        """Which rows are at instants that an operand of a conjunction is asked about."""
        chosen = np.zeros(len(times), np.bool_)
        for one in asking.evidence:
            enough = np.ones(len(times), np.bool_)
            for stream in one.streams:
                enough &= _among(times, times[feed == streams.index(stream)])
            for number in one.askings:
                enough &= _among(times, found[number].at)
            chosen |= enough
        return chosen

    def live_ids(self) -> list[Ints]:
        """The ids of variables that have one value."""
        return [columns.constants for columns in self._columns.values()]


def _among(times: Ints, known: Ints) -> Bools:
    """Which times are among others; both are in order."""
    if not len(known):
        return np.zeros(len(times), np.bool_)
    return known[np.minimum(np.searchsorted(known, times), len(known) - 1)] == times
