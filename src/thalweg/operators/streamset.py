"""The streamset: streams that some queries join, merged by time, with the windows and views of those queries."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.windows import ELEMENTS, TRIPLES, Count, Entailed, Range, Unbounded, Window
from thalweg.errors import UsageError
from thalweg.kernels.layout import ABSENT
from thalweg.kernels.times import NO_TIME
from thalweg.operators.feeds import GENERATION, OwnFeeds
from thalweg.operators.matcher import Matcher
from thalweg.operators.merging import Merge
from thalweg.operators.reevaluate import Reevaluator
from thalweg.operators.registrations import Registrations
from thalweg.operators.routing import Routes
from thalweg.operators.spans import Spans
from thalweg.operators.state import State
from thalweg.operators.statics import Key, StaticFeed, StaticSolutions
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
from thalweg.rdf.events import Rows
from thalweg.static.data import StaticData, distinct

Ints = NDArray[np.int64]
_SETTLE_EVERY = 16
_MANY = 256
_CALM = 256  # rows for each query, which cost more than planning it again


class Streamset:
    """Streams merged by time; the queries over them share stores, dispatch and one run of the kernel."""

    def __init__(
        self, streams: Sequence[str], strategy: Strategy = "incremental", static: StaticData | None = None
    ) -> None:
        """`static` are the static data of the session; it says when they have changed (`reload`)."""
        self.streams = tuple(streams)
        self.static = StaticData() if static is None else static
        self.strategy = strategy
        self.started = False
        """Whether a row has come: then a query that is added sees what comes from then on."""
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
        self.has_content = False
        """Whether it begins with rows that its streams retain, and has not matched them yet."""
        self._intern: Interner | None = None
        self._arena: Arena | None = None
        self._noted = 0  # queries whose windows have been looked at
        self._calm = 0  # rows since the last registration
        self._registrations = Registrations()
        self._linked = self._dropped = 0  # queries that came and went since all were compiled together
        self._longest: int | None = 0  # how long a window by time can hold a row; None: for ever
        self._stale = False  # whether queries have come or gone since the program was made
        self._unsettled = 0  # runs since memory was last given back
        self._awaits_start = False
        self._feed: StaticFeed | None = None
        self._graphs: frozenset[str] = frozenset()  # static graphs that the program knows
        self._began: int | None = None  # the first instant of queries that have no static data yet
        self._awaits_static = False
        self._first: int | None = None  # instant of the queries, as far as it has been seen here
        self._event_static = StaticSolutions()
        self._relink = False  # whether the program has to be made anew
        self._reload_at: int | None = None  # when the static data that there are now begin

    # Queries

    @property
    def is_open(self) -> bool:
        """Whether a query can be added: before the first row, or while all streams run, unless it re-evaluates."""
        return not self.started or (self.strategy == "incremental" and not self._merge.ended)

    @property
    def awaits_start(self) -> bool:
        """Whether some query has rows that begin with its first instant, and have not begun."""
        return self._awaits_start or self._awaits_static

    def add(self, query: Query, arena: Arena, limits: Limits = LIMITS) -> View:
        """Takes a query in, for what comes from now on. The arena is that of all rows."""
        view = view_of(query, arena, limits)
        if self._feed is None:
            self._feed = StaticFeed(self.static, arena)
        if not self._awaits_static:
            self._began = None
        self._awaits_static = True
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

    # Time

    def begin_with(self, content: Mapping[str, Sequence[Rows]]) -> None:
        """Begins with rows that its streams retain; before any other, and after their watermarks.

        They are matched when something else happens, so that further queries can be added until then.
        """
        for stream, parts in content.items():
            for rows in parts:
                self._merge.push(stream, rows, NO_TIME, NO_TIME)
        self.started = self.has_content = True

    def catch_up(self) -> None:
        """Matches the content that it begins with; the views show the answer over it, not how it came about."""
        if not self.has_content or self._intern is None:
            return
        self.has_content = False
        bound = self._merge.target(0)
        if bound == NO_TIME:  # a stream has not begun: all of the content is still to come
            return
        self._routes.open(bound)
        first = min((int(rows.time.min()) for rows in self._merge.waiting), default=bound)
        self._began = min(first, bound - 1)
        self._process(bound, self._intern)
        self.bound = max(self.bound, bound)
        self._routes.begin(bound)
        self._settle(0)

    def push(self, stream: str, rows: Rows | None, clock: int, watermark: int) -> None:
        """Takes rows of one stream, none before an earlier watermark, its latest time and its new watermark."""
        if self.has_content:
            self.catch_up()
        if rows is not None and len(rows):
            self.started = self._registrations.overtaken = True
        self._merge.push(stream, rows, clock, watermark)

    def open(self, at: int) -> None:
        """Takes the time of an event or of an `advance`, with or without rows: the earliest is the first instant."""
        self.open_static(at)
        self._routes.open(at)

    def open_static(self, at: int) -> None:
        """The same for static data alone: they begin with the earliest of such instants."""
        self._began = at if self._began is None else min(self._began, at)
        self._first = at if self._first is None else min(self._first, at)

    def static_since(self, first: int | None) -> int | None:
        """From which instant on a new streamset has to have static data, to be as this one when it has its rows.

        Nothing before the horizon matters. `first` is such an instant of the streamset that this one has replaced;
        None: there is none yet.
        """
        known = [at for at in (first, self._first) if at is not None]
        horizon = self.horizon()
        return None if not known else max(min(known), NO_TIME if horizon is None else horizon)

    def reload(self) -> None:
        """Takes note that static data have changed: they do so at the first instant that can still change."""
        self.counts_events = self.counts_events or self._needs_events()
        if self.bound == NO_TIME or not self._reads_static():
            return
        if (
            self.strategy == "reevaluate"
            and self._again is not None
            and self._graphs.isdisjoint(self.static.names)
        ):
            raise UsageError("a session that re-evaluates takes static data before its first event")
        complete = (
            self.bound if query.per_event else view.settled(self.bound)
            for query, view in self._routes.active()
        )
        self._reload_at = 1 + max(complete)

    def _reads_static(self) -> bool:
        """Whether some query reads a static graph that there is."""
        names = {*self.static.names, *self._graphs}
        return bool(names) and any(not names.isdisjoint(query.graphs) for query, _ in self._routes.active())

    def finish(self, streams: Collection[str], *, drain: bool) -> None:
        """Ends streams; `drain` lets time run on until the windows are empty."""
        self.catch_up()
        self._merge.finish(streams, drain=drain)

    def reopen(self, stream: str) -> None:
        """Takes an ended stream as running again. What comes on it before `bound` is late: the caller sees to that."""
        self._merge.reopen(stream)

    @property
    def finished(self) -> bool:
        """Whether all streams have ended."""
        return self._merge.finished

    @property
    def drains(self) -> bool:
        """Whether time runs on after the end of the streams."""
        return self._merge.drains

    @property
    def counts_triples(self) -> bool:
        """Whether the order of the triples of an event matters: some window is [TRIPLES n]."""
        return any(isinstance(window, Count) and window.unit == TRIPLES for window in self._windows())

    def reach(self) -> int | None:
        """How long after an event the windows can still hold it; None: for ever."""
        windows = list(self._windows())
        return None if any(isinstance(w, Unbounded | Count) for w in windows) else _longest(windows)

    def _windows(self) -> Iterator[Window]:
        return (window for query, _ in self._routes.active() for window in query.windows)

    def horizon(self) -> int | None:
        """The earliest event time that can still matter, or None where everything does."""
        reach = self.reach()
        # Empty reports begin with the first answer that there ever was: who starts anew has to find it.
        if reach is None or any(query.reports_empty for query, _ in self._routes.active()):
            return None
        waiting = [int(rows.time.min()) for rows in self._merge.waiting]
        return min([max(self.bound, NO_TIME + reach) - reach, *waiting])

    # Work

    def run(self, intern: Interner) -> None:
        """Processes everything up to the smallest watermark of the streams."""
        self.catch_up()
        bound = self._merge.target(_longest(self._windows()) if self._merge.drains else 0)
        fed = self._process(bound, intern)
        later, self.bound = bound > self.bound, max(self.bound, bound)
        try:
            self._routes.advance(bound)
        finally:
            self._unsettled += 1
            # While rows come, their expiry is looked at now and then; without any, at once.
            if later and (not fed or self._unsettled >= _SETTLE_EVERY or fed >= _MANY):
                self._unsettled = 0
                self._settle(fed)

    def _process(self, bound: int, intern: Interner) -> int:
        """Matches the rows up to `bound`, and hands solutions to the views; answers how many rows that were."""
        feed, rows = self._merge.take(bound)
        fed = len(feed)
        if self._awaits_static or self._reload_at is not None:
            for at, anew in self._static_moments(bound):
                cut = int(np.searchsorted(rows.time, at))
                if cut:
                    self._step(feed[:cut], rows[:cut], at, intern)
                    feed, rows = feed[cut:], rows[cut:]
                self._take_static(at, intern, anew=anew)
        self._step(feed, rows, bound, intern)
        if self._awaits_start:
            self._routes.start(bound)
            self._awaits_start = self._routes.awaits_start
        return fed

    def _static_moments(self, bound: int) -> Iterator[tuple[int, bool]]:
        """The instants up to `bound` at which static data come or change; whether it is for new queries."""
        reload_at, began = self._reload_at, self._began
        if reload_at is not None and reload_at <= bound:
            self._reload_at = None
            yield reload_at, False
        if self._awaits_static and began is not None and began <= bound:
            self._awaits_static, self._began = False, None
            if self._reads_static():
                yield began, True

    def _take_static(self, at: int, intern: Interner, *, anew: bool) -> None:
        """Takes what has changed of static data, at an instant; `anew`: all of them, for queries that have none."""
        names = frozenset(self.static.names)
        if names != self._graphs:
            self._graphs, self._stale, self._relink = names, True, True
        self._prepare(intern)
        generation = self._registrations.generation
        if not anew and self._awaits_static:
            generation = max(generation - 1, 0)  # of the queries that have begun
        assert self._feed is not None
        holder = self._again if self._again is not None else self._matcher
        assert holder is not None
        feed, rows = self._feed.rows(holder.program, None if anew else holder.static_content, at, generation)
        if not len(feed):
            return
        self._registrations.overtaken = True
        for query, view in self._routes.active():
            view.has_static = view.has_static or not names.isdisjoint(query.graphs)
        if self._again is not None:
            for spans in self._again.step(feed, rows, at):
                self._routes.deliver(spans, now=at)
        else:
            self._match(feed, rows, intern, static=True)

    def _step(self, feed: Ints, rows: Rows, bound: int, intern: Interner) -> None:
        """Matches rows that have been taken, up to `bound`, and hands solutions to the views."""
        if len(feed):
            self._routes.see_events(feed, rows, self.streams, self._registrations.generations)
        if len(feed) or self.strategy == "reevaluate":
            self._prepare(intern)
        # Before feeds are made: markers end there, and static data may answer an event of which no row is left.
        events = self._event_static.events_of(rows) if self._event_static and self._again is None else None
        if len(self._feeds):
            feed, rows = self._feeds.step(feed, rows, bound)
            for number in self._counting:
                self._routes.note_due(number)
        if self._again is not None:
            for spans in self._again.step(feed, rows, bound):
                self._routes.deliver(spans, now=int(spans.begin[0]))
        else:
            if self.counts_events and not len(self._feeds) and not rows.s.all():  # markers are of no store
                feed, rows = feed[rows.s != 0], rows[rows.s != 0]
            if len(feed) or events is not None:
                self._match(feed, rows, intern, events)

    def _match(
        self, feed: Ints, rows: Rows, intern: Interner, events: Ints | None = None, *, static: bool = False
    ) -> None:
        """Matches rows; `events` are those that static data alone answer, too. `static`: the rows are such data."""
        matcher = self.matcher(intern)
        generations = None
        if self._registrations.generation:
            generations = feed >> GENERATION
            feed = feed & ((1 << GENERATION) - 1)
        if self._linked:
            self._calm += len(feed)
            # Once no more queries come, it is worth its cost to plan all of them together.
            if self._calm > _CALM * len(self._routes.queries):
                self._linked, self._stale = len(self._routes.queries) + FEW_QUERIES, True
        found = matcher.step(feed, rows, generations)
        if static:
            found = self._kept_for_events(found, matcher.program)
        elif events is not None:
            found = self._with_static(found, events, matcher.program)
        for spans in found:
            self._routes.deliver(spans, now=int(rows.time[0]) if len(feed) else int(spans.begin.min()))
        if not len(feed):
            return
        queries = self._routes.queries
        if self._collector.is_due(matcher, len(queries)):
            now = int(rows.time[-1])
            epochs = self._registrations.epochs
            if self._collector.collect(matcher, [query for query, _ in queries], epochs, intern, now):
                matcher.replan(self._compile(intern), now)

    def _units_of_events(self, program: Program) -> list[tuple[int, Key]]:
        """The units of [NOW] queries."""
        return [
            (number, (self._routes.queries[unit.query][1], unit.leaf, unit.part))
            for number, unit in enumerate(program.units)
            if self._routes.queries[unit.query][0].per_event
        ]

    def _kept_for_events(self, found: Iterable[Spans], program: Program) -> Iterator[Spans]:
        """Solutions of static data without those of [NOW] queries, which are kept for the events to come."""
        units = self._units_of_events(program)
        for spans in found:
            of_events = np.zeros(len(spans), np.bool_)
            for number, key in units:
                mine = spans.unit == number
                if mine.any():
                    self._event_static.add(key, spans[mine], len(program.units[number].shown))
                    of_events |= mine
            if not of_events.all():
                yield spans[~of_events] if of_events.any() else spans

    def _with_static(self, found: Iterable[Spans], events: Ints, program: Program) -> Iterator[Spans]:
        """Solutions with those that static data alone give to events: both of an event come together."""
        units = self._units_of_events(program)
        width = max((len(unit.shown) for unit in program.units), default=0)
        for spans in found:
            places = np.flatnonzero(events[:, 0] == spans.event[-1])
            until = int(places[-1]) + 1 if len(places) else 0
            more = self._event_static.spans(events[:until], units, width)
            events = events[until:]
            yield Spans(np.concatenate([more, spans.cells[:, : more.shape[1]]])) if len(more) else spans
        if len(events) and len(more := self._event_static.spans(events, units, width)):
            yield Spans(more)

    def _settle(self, fed: int) -> None:
        """Gives back memory of what has ended; as many rows as were fed now may come again at once."""
        if self._matcher is not None:
            self._matcher.settle(self.bound)
            if self._registrations.generation:
                self._join_generations(self._matcher)
        self._routes.settle(self.bound, fed)
        self._merge.give_back(fed)

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

    def _prepare(self, intern: Interner) -> None:
        """Makes what matches, if it is not there yet."""
        if self.strategy == "incremental":
            self.matcher(intern)
        elif self._again is None:
            self._again = Reevaluator(self._compile(intern))
            self._set_up(self._again.program, intern)

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
                self._longest = None if unbounded else max(self._longest, _longest(windows))
            if query.by_count:
                self._counting.append(number)
        self._noted = len(self._routes.queries)

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

    # Saving

    def digest(self) -> str:
        """A digest of the queries' trees and windows, by which a saved state is known to fit."""
        parts = [(query.sources, query.operator, query.root) for query, _ in self._routes.queries]
        return hashlib.sha256(repr((self.streams, parts)).encode()).hexdigest()[:32]

    def refresh(self, intern: Interner) -> None:
        """Makes the stores of queries that have come since the last row; queries may get other numbers."""
        self.catch_up()
        if self._matcher is not None:
            self.matcher(intern)

    def state(self) -> State:
        """Everything but the queries themselves; after `refresh`."""
        if self.strategy != "incremental":
            raise UsageError("a session that re-evaluates cannot be saved: it is for comparison")
        return {
            "plan": self.digest(),
            "started": self.started,
            "bound": self.bound,
            "merge": self._merge.state(),
            "statistics": self._collector.state(),
            "routes": self._routes.state(),
            "registrations": self._registrations.state(),
            "matcher": self._matcher.state() if self._matcher is not None else None,
            "counts": self._feeds.state(),
            "graphs": sorted(self._graphs),
            "static": [self._awaits_static, self._began, self._reload_at],
            "events": self._event_static.state([view for _, view in self._routes.queries]),
        }

    def restore(self, state: State, intern: Interner) -> None:
        """Goes on where a saved streamset with the same queries was."""
        if state["plan"] != self.digest():
            raise UsageError("the saved state belongs to other queries, or to another version of their plans")
        self.started, self.bound = state["started"], state["bound"]
        self._merge.restore(state["merge"])
        self._collector.restore(state["statistics"])
        self._registrations.restore(state["registrations"])
        self._routes.restore_views(state["routes"])
        self._awaits_start = self._routes.awaits_start
        self._graphs = frozenset(state["graphs"])
        self._awaits_static, self._began, self._reload_at = state["static"]
        self._event_static.restore(state["events"], [view for _, view in self._routes.queries])
        for query, view in self._routes.queries:
            view.has_static = not self._graphs.isdisjoint(query.graphs)
        if state["matcher"] is not None:
            self.matcher(intern).restore(state["matcher"])
        self._routes.restore_products(state["routes"])
        self._feeds.restore(state["counts"])
        if self._routes.removed:
            for number in self._routes.removed:
                self._routes.remove(number)
            self._let_go(intern)


def _counts_events(windows: Iterable[StoreKey]) -> bool:
    seen = (window.window if isinstance(window, Entailed) else window for _, window, _, _ in windows)
    return any(isinstance(window, Count) and window.unit == ELEMENTS for window in seen)


def _longest(windows: Iterable[Window]) -> int:
    """How long after an event the last change that time alone brings can come."""
    return max((w.reach for w in windows if isinstance(w, Range | Count)), default=0)
