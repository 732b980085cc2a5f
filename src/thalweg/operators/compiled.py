"""The queries of a streamset, and the one program that matches them all: compiled, linked and planned anew."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.windows import ELEMENTS, Count, Entailed, Range, Unbounded, Window
from thalweg.errors import UsageError
from thalweg.kernels.layout import ABSENT
from thalweg.kernels.times import NO_TIME
from thalweg.operators.feeds import OwnFeeds
from thalweg.operators.matcher import Matcher
from thalweg.operators.merging import Merge
from thalweg.operators.reevaluate import Reevaluator
from thalweg.operators.registrations import Registrations
from thalweg.operators.routing import Routes
from thalweg.operators.statics import StaticSolutions
from thalweg.operators.statistics import StatisticsCollector
from thalweg.operators.views import View, view_of
from thalweg.options import LIMITS, Limits, Strategy
from thalweg.plan.linking import link_query
from thalweg.plan.program import (
    Interner,
    Program,
    StoreKey,
    base_of,
    compile_program,
    has_feed,
    store_key,
    wanted_predicates,
)
from thalweg.plan.pruning import answers_any_event
from thalweg.plan.shapes import FEW_QUERIES
from thalweg.rdf.arena import Arena
from thalweg.static.data import StaticData, distinct

Ints = NDArray[np.int64]


class CompiledQueries:
    """Queries that share stores, dispatch and one program, while some come and others go."""

    def __init__(
        self, streams: Sequence[str], strategy: Strategy = "incremental", static: StaticData | None = None
    ) -> None:
        """`static` are the static data of the session; it says when they have changed (`reload`)."""
        self.streams = tuple(streams)
        self.static = StaticData() if static is None else static
        self.strategy = strategy
        self.windows: set[StoreKey] = set()
        self.counts_events = False
        """Whether some window is [ELEMENTS n]: it needs a row of each event, be it a marker."""
        self.bound = NO_TIME
        """How far the queries have come: everything before this instant has been processed."""
        self._merge = Merge(self.streams)
        self._routes = Routes()
        self._again: Reevaluator | None = None
        self._matcher: Matcher | None = None
        self._collector = StatisticsCollector()
        self._feeds = OwnFeeds(len(self.streams))
        self._counting: list[int] = []
        self._intern: Interner | None = None
        self._arena: Arena | None = None
        self._noted = 0  # queries whose windows have been looked at
        self._calm = 0  # rows since the last registration
        self._registrations = Registrations()
        self._linked = self._dropped = 0  # queries that came and went since all were compiled together
        self._longest: int | None = 0  # how long a window by time can hold a row; None: for ever
        self._stale = False  # whether queries have come or gone since the program was made
        self._relink = False  # whether the program has to be made anew
        self._awaits_start = False
        self._graphs: frozenset[str] = frozenset()  # static graphs that the program knows
        self._event_static = StaticSolutions()

    # Queries

    def add(self, query: Query, arena: Arena, limits: Limits = LIMITS) -> View:
        """Takes a query in, for what comes from now on. The arena is that of all rows."""
        view = view_of(query, arena, limits)
        self._routes.add(query, view)
        if self._registrations.add():
            self._merge.begin_generation(self._registrations.generation)
            self._registrations.overlap_until = self._merge.clock
        epoch = self._registrations.epochs[-1]
        self.windows.update(store_key(source, epoch) for source in query.sources)
        self.counts_events = self._needs_events()
        self._again = None
        self._stale = True
        self._calm = 0
        self._intern, self._arena = arena.intern, arena
        self._awaits_start = self._awaits_start or view.awaits_start
        return view

    def remove(self, view: View, intern: Interner) -> None:
        """Lets a query go; the others keep their windows."""
        number = next(k for k, (_, other) in enumerate(self._routes.queries) if other is view)
        self._routes.remove(number)
        self._stale = True
        self._dropped += 1
        self._let_go(intern)

    def _needs_events(self) -> bool:
        """Whether events matter of which no row is left: they are counted, or static data answer each event."""
        names = self.static.names
        return _counts_events(self.windows) or (
            bool(names) and any(answers_any_event(query, names) for query, _ in self._routes.active())
        )

    def _let_go(self, intern: Interner) -> None:
        """Lets go of what only queries have used that are gone: rows of windows, and what was counted."""
        queries = [
            (query, epoch)
            for number, ((query, _), epoch) in enumerate(
                zip(self._routes.queries, self._registrations.epochs, strict=True)
            )
            if number not in self._routes.removed
        ]
        self.windows = {store_key(source, epoch) for query, epoch in queries for source in query.sources}
        if self.counts_events and not self._needs_events():
            self.counts_events = False
            self._merge.drop_markers()
        if self._matcher is not None:
            for store, key in enumerate(self._matcher.program.stores):
                self._matcher.stores.keep(store, wanted_predicates(queries, key, intern))
        for number in self._routes.removed:
            self._event_static.forget(self._routes.queries[number][1])
            self._feeds.leave(self._routes.queries[number][1], self.windows)

    def __len__(self) -> int:
        return len(self._routes)

    @property
    def registered(self) -> list[tuple[Query, View]]:
        """The queries and their views in the order of registration, those that were removed included."""
        return self._routes.queries

    def _windows(self) -> Iterator[Window]:
        return (window for query, _ in self._routes.active() for window in query.windows)

    # What matches them

    def _prepare(self, intern: Interner) -> None:
        """Makes what matches, if it is not there yet."""
        if self.strategy == "incremental":
            self.matcher(intern)
        elif self._again is None:
            self._again = Reevaluator(self._compile(intern))
            self._set_up(self._again.program, intern)

    def matcher(self, intern: Interner) -> Matcher:
        """The matcher, made when it is first needed."""
        if self._matcher is None:
            self._matcher = Matcher(self._compile(intern))
        elif self._stale:
            self._renew(self._matcher, intern)
        else:
            return self._matcher
        self._stale = False
        self._set_up(self._matcher.program, intern)
        self._set_generations(self._matcher)
        return self._matcher

    def _compile(self, intern: Interner, stores: Sequence[StoreKey] = ()) -> Program:
        """A program of all queries together; with `stores`, those that were removed are forgotten."""
        if stores and self._routes.removed:
            kept = self._routes.renumber()
            self._registrations.renumber(kept)
            self._collector.renumber(kept)
        queries = [query for query, _ in self._routes.queries]
        self._linked = self._dropped = 0
        return compile_program(
            self.streams,
            queries,
            intern,
            self._routes.removed,
            self._collector.statistics,
            self._registrations.epochs,
            stores,
            self._graphs,
        )

    def _renew(self, matcher: Matcher, intern: Interner) -> None:
        """Gives a matcher the program for the queries that there are now: with some more, or of all together."""
        program = matcher.program
        known = self._noted
        more = self._routes.queries[known:]
        self._linked += len(more)
        many = len(self._routes.queries) // 8
        anew: set[int] = set()
        if not self._relink and self._dropped <= many and self._linked <= max(FEW_QUERIES, many):
            for number, (query, _) in enumerate(more, known):
                epoch = self._registrations.epochs[number]
                linked = link_query(
                    program, query, number, intern, self._collector.statistics, epoch, self._graphs
                )
                if linked is None:
                    break
                program, anew = linked[0], anew | linked[1]
            else:
                matcher.follow(program, self.bound, anew)
                return
        self._relink = False
        kept = {*self.windows, *(base_of(key, self._graphs) for key in self.windows)}
        stores = [key for key in matcher.program.stores if key in kept]
        matcher.follow(self._compile(intern, stores), self.bound)

    def _set_up(self, program: Program, intern: Interner) -> None:
        """Makes what stands before and behind the matching: countings, products, ways to views."""
        self._routes.follow(program)
        if len(self._feeds) or any(map(has_feed, program.stores)):
            registrations = zip(self._registrations.epochs, self._registrations.generations, strict=True)
            queries = [(*pair, *own) for pair, own in zip(self._routes.queries, registrations, strict=True)]
            assert self._arena is not None
            self._feeds.follow(program, queries, self._arena)
        if not self._linked:
            self._longest, self._counting, self._noted = 0, [], 0
        for number, (query, _) in enumerate(self._routes.queries[self._noted :], self._noted):
            windows = query.windows
            if self._longest is not None:
                unbounded = any(isinstance(window, Unbounded) for window in windows)
                self._longest = None if unbounded else max(self._longest, longest(windows))
            if query.by_count:
                self._counting.append(number)
        self._noted = len(self._routes.queries)

    def _set_generations(self, matcher: Matcher) -> None:
        """Passes to a matcher which rows its units may use."""
        if self._registrations.generation:
            matcher.set_generations(self._registrations.of_units(matcher.program.units))

    def _join_generations(self, matcher: Matcher) -> None:
        """Ends to distinguish generations, once every live row came after the last registration."""
        registrations = self._registrations
        if self._longest is None or self.bound <= registrations.overlap_until + self._longest:
            return
        stores = [k for k, key in enumerate(matcher.program.stores) if not has_feed(key)]
        if not all(matcher.stores.all_serve(store, registrations.generation, self.bound) for store in stores):
            registrations.overlap_until = self.bound  # some triples have come again since before
            return
        registrations.join()
        self._merge.begin_generation(0)
        self._feeds.join_generations()
        matcher.set_generations(None)

    def content(self, view: View, intern: Interner) -> list[Ints]:
        """What each source of a query holds at `bound`, as rows of s, p and o; after `catch_up`."""
        if self.strategy != "incremental":
            raise UsageError("a session that re-evaluates has no content to show: it is for comparison")
        none = np.empty((0, 3), np.int64)
        matcher = None if self._matcher is None else self.matcher(intern)
        number = next(k for k, (_, other) in enumerate(self._routes.queries) if other is view)
        epoch, generation = self._registrations.epochs[number], self._registrations.generations[number]
        found = []
        for source in self._routes.queries[number][0].sources:
            key = store_key(source, epoch)
            keys = () if matcher is None else (key, base_of(key, self._graphs))
            parts = [
                matcher.stores.content(matcher.program.stores.index(own), self.bound, generation)
                for own in keys
                if matcher is not None and own in matcher.program.stores
            ]
            # What is in a window and static, too, is one triple.
            found.append(distinct(np.concatenate([none, *parts])) if len(parts) > 1 else (parts or [none])[0])
        return found

    # Memory

    def live_ids(self) -> Iterator[Ints]:
        """The term ids that stores, queues and views still use."""
        for keeper in (self._matcher, self._again):
            if keeper is not None:
                yield from keeper.live_ids()
        for rows in self._merge.waiting:
            yield from rows.ids
        yield from self._routes.live_ids()
        yield from self._feeds.live_ids()
        yield from self._event_static.live_ids()

    @property
    def live(self) -> int:
        """How many rows the windows hold."""
        return self._matcher.stores.live if self._matcher is not None else 0

    @property
    def held(self) -> int:
        """How many rows are kept in all: by windows, queues, views, products and countings."""
        waiting = sum(map(len, self._merge.waiting))
        return self.live + waiting + self._routes.held + self._feeds.held

    @property
    def absent(self) -> int:
        """How many deletes found nothing to delete."""
        matched = self._matcher.counters.item(ABSENT) if self._matcher is not None else 0
        return matched + self._feeds.absent

    @property
    def shed(self) -> int:
        """How many partial matches were dropped: only sequences have some."""
        return 0

    @property
    def window_bytes(self) -> int:
        """The memory of the windows, with their indexes."""
        return self._matcher.stores.nbytes if self._matcher is not None else 0

    @property
    def output_bytes(self) -> int:
        """The memory of the buffer in which solutions leave the kernel."""
        return self._matcher.output_bytes if self._matcher is not None else 0

    @property
    def answer_bytes(self) -> int:
        """The memory of what pipelines and views keep, and of the parts of products."""
        return self._routes.nbytes + self._feeds.nbytes

    def operator_bytes(self) -> Counter[str]:
        """The memory of the operators of all queries, by their names."""
        return self._routes.operator_bytes()

    def digest(self) -> str:
        """A digest of the queries' trees and windows, by which a saved state is known to fit."""
        parts = [(query.sources, query.operator, query.root) for query, _ in self._routes.queries]
        return hashlib.sha256(repr((self.streams, parts)).encode()).hexdigest()[:32]


def _counts_events(windows: Iterable[StoreKey]) -> bool:
    seen = (window.window if isinstance(window, Entailed) else window for _, window, _, _ in windows)
    return any(isinstance(window, Count) and window.unit == ELEMENTS for window in seen)


def longest(windows: Iterable[Window]) -> int:
    """How long after an event the last change that time alone brings can come."""
    return max((w.reach for w in windows if isinstance(w, Range | Count)), default=0)
