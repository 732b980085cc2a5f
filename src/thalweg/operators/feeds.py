"""Feeds: the rows that the matcher gets, in time order: those of streams, and those that are made of them."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.windows import Arrivals, Count, Entailed
from thalweg.operators.arrivals import ArrivalTimes
from thalweg.operators.counting import Counting
from thalweg.operators.entailment import Entailment
from thalweg.operators.runs import in_time_order
from thalweg.operators.state import State
from thalweg.operators.views import View
from thalweg.plan.program import (
    Program,
    StoreKey,
    fed_stores,
    patterns_of,
    store_key,
    wanted_predicates,
)
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import Rows
from thalweg.schema.axioms import Schema
from thalweg.schema.expansion import Expansion
from thalweg.schema.network import Network, Terms

Ints = NDArray[np.int64]
GENERATION = 32
"""Where a column of feeds also has generations: the bits below them, which are the number of the feed."""


class OwnFeeds:
    """The windows of a streamset that make feeds of their own out of rows of the streams: those by count, arrivals, and
    those that are closed under a schema.
    """

    def __init__(self, streams: int) -> None:
        self._streams = streams
        self._keys: list[StoreKey] = []
        self._own: list[Counting | ArrivalTimes | Entailment] = []
        self._plain = True  # whether a store takes the rows of the streams themselves
        self._generations: list[int] = []
        self._gone: set[int] = set()
        self._listeners: list[list[View]] = []
        self._shared: list[Expansion] = []

    def follow(self, program: Program, queries: Sequence[tuple[Query, View, int, int]], arena: Arena) -> None:
        """Has the windows of a program; those that it had go on. Queries come with their views, epochs, generations."""
        before = dict(zip(self._keys, self._own, strict=True))
        gone = {self._keys[number] for number in self._gone}
        self._keys = [program.stores[store] for store in fed_stores(program.stores)]
        self._gone = {number for number, key in enumerate(self._keys) if key in gone}
        self._own, self._generations, self._listeners = [], [], []
        self._plain = bool((program.feeds[: self._streams, 0] >= 0).any())
        tables: dict[tuple[Schema, frozenset[Terms]], Expansion] = {}
        for key in self._keys:
            streams, window, epoch, _ = key
            assert isinstance(window, Count | Arrivals | Entailed)
            made = before.get(key)
            if made is None:
                numbers = [program.streams.index(stream) for stream in streams]
                asked = [(query, own) for query, _, own, _ in queries]
                if isinstance(window, Entailed):
                    table = _table(window.schema, patterns_of(asked, key), arena, tables)
                    made = Entailment(window, numbers, self._streams, table)
                else:
                    made = _made(window, key, numbers, asked, arena)
            self._own.append(made)
            # All queries of an epoch have the same generation, and no other query uses the store.
            self._generations.append(max((born for _, _, own, born in queries if own == epoch), default=0))
            self._listeners.append([view for query, view, own, _ in queries if _ticks(query, key, own)])
        found = {id(one.expansion): one.expansion for one in self._own if isinstance(one, Entailment)}
        self._shared = [one for one in found.values() if one.is_shared]

    def __len__(self) -> int:
        return len(self._own)

    def step(self, feed: Ints, rows: Rows, bound: int) -> tuple[Ints, Rows]:
        """The rows together with the feeds that are made of them, which follow the others of their instant.

        Markers end here: they are for counting alone.
        """
        feeds: list[Ints] = []
        parts: list[Rows] = []
        if self._plain:
            is_triple = rows.s != 0
            feeds.append(feed if is_triple.all() else feed[is_triple])
            parts.append(rows if is_triple.all() else rows[is_triple])
        streams = feed & ((1 << GENERATION) - 1)
        for number, (made, generation) in enumerate(zip(self._own, self._generations, strict=True)):
            if number in self._gone:
                continue
            came = feed >> GENERATION >= generation if generation else None
            if came is None or came.all():
                derived, reports = made.step(streams, rows, bound)
            else:
                derived, reports = made.step(streams[came], rows[came], bound)
            for view in self._listeners[number]:
                view.tick(reports)
            if len(derived):
                own = generation << GENERATION | self._streams + number
                feeds.append(np.full(len(derived), own, np.int64))
                parts.append(derived)
        for expansion in self._shared:
            expansion.forget()
        if len(parts) == 1:
            return feeds[0], parts[0]
        if not parts:
            return feed[:0], rows[:0]
        return in_order(np.concatenate(feeds), parts)

    def leave(self, view: View, windows: Set[StoreKey]) -> None:
        """Releases a view, and what other windows than these have counted: there will be no further call."""
        self._listeners = [[other for other in views if other is not view] for views in self._listeners]
        for number, key in enumerate(self._keys):
            if key not in windows:
                self._gone.add(number)
                self._own[number].clear()

    def join_generations(self) -> None:
        """Counts all rows that come: they are of every query."""
        self._generations = [0] * len(self._own)

    def state(self) -> State:
        """What has been counted and is kept."""
        return {
            "countings": {repr(key): made.state() for key, made in zip(self._keys, self._own, strict=True)}
        }

    def restore(self, state: State) -> None:
        """Goes on where saved ones were."""
        for key, made in zip(self._keys, self._own, strict=True):
            made.restore(state["countings"][repr(key)])

    def live_ids(self) -> list[Ints]:
        """The term ids that are still to be sent to stores."""
        return [ids for made in self._own for ids in made.live_ids()]

    @property
    def absent(self) -> int:
        """How many deletes found nothing to delete in windows that are closed under a schema."""
        if not self._own:  # asked before and after every push
            return 0
        return sum(made.absent for made in self._own if isinstance(made, Entailment))

    @property
    def held(self) -> int:
        """How many rows are kept."""
        return sum(made.held for made in self._own)

    @property
    def nbytes(self) -> int:
        """The memory of the elements that are kept."""
        return sum(made.nbytes for made in self._own)


def _table(
    schema: Schema,
    patterns: tuple[Terms, ...],
    arena: Arena,
    tables: dict[tuple[Schema, frozenset[Terms]], Expansion],
) -> Expansion:
    """The network of a schema for some patterns: one of those that there are, which is then shared, or a new one."""
    key = schema, frozenset(patterns)
    if key in tables:
        tables[key].is_shared = True
    else:
        tables[key] = Expansion(Network(schema, patterns), arena)
    return tables[key]


def _made(
    window: Count | Arrivals,
    key: StoreKey,
    streams: Sequence[int],
    queries: Sequence[tuple[Query, int]],
    arena: Arena,
) -> Counting | ArrivalTimes:
    """What makes the feed of a window over some streams, for queries, which come with their epochs."""
    wanted = wanted_predicates(queries, key, arena.intern)
    if isinstance(window, Arrivals):
        return ArrivalTimes(window, streams, wanted, arena.intern)
    return Counting(window, streams, wanted)


def _ticks(query: Query, key: StoreKey, epoch: int) -> bool:
    """Whether a query needs the reports of a store's window."""
    return any(
        store_key(source, epoch) == key and isinstance(source.seen, Count) and source.seen.ticks
        for source in query.sources
    )


def in_order(feed: Ints, parts: Sequence[Rows]) -> tuple[Ints, Rows]:
    """Parts as one, by time; rows of an instant stay in the order of the parts."""
    rows = Rows.concat(parts)
    if not in_time_order(rows.time):
        order = np.argsort(rows.time, kind="stable")
        feed, rows = feed[order], rows[order]
    return feed, rows


def split(parts: Sequence[Rows], bound: int) -> tuple[list[Rows], list[Rows]]:
    """Rows with a time up to `bound`, and the others."""
    due: list[Rows] = []
    later: list[Rows] = []
    for rows in parts:
        early = rows.time <= bound
        if early.all():
            due.append(rows)
        elif not early.any():
            later.append(rows)
        else:
            due.append(rows[early])
            later.append(rows[~early])
    return due, later
