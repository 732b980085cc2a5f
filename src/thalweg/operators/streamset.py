"""The streamset: streams that some queries join, merged by time, with the windows and views of those queries."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.windows import TRIPLES, Count, Unbounded
from thalweg.errors import UsageError
from thalweg.kernels.times import NO_TIME
from thalweg.operators.compiled import CompiledQueries, longest
from thalweg.operators.feeds import GENERATION
from thalweg.operators.state import State
from thalweg.operators.statics import Key, StaticFeed
from thalweg.operators.views import View
from thalweg.options import LIMITS, Limits, Strategy
from thalweg.plan.program import Interner, Program
from thalweg.plan.shapes import FEW_QUERIES
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import Rows
from thalweg.static.data import StaticData

Ints = NDArray[np.int64]
_SETTLE_EVERY = 16
_MANY = 256
_CALM = 256  # rows for each query, which cost more than planning it again


class Streamset(CompiledQueries):
    """Streams merged by time; the queries over them share stores, dispatch and one run of the kernel."""

    def __init__(
        self, streams: Sequence[str], strategy: Strategy = "incremental", static: StaticData | None = None
    ) -> None:
        """`static` are the static data of the session; it says when they have changed (`reload`)."""
        super().__init__(streams, strategy, static)
        self.started = False
        """Whether a row has come: then a query that is added sees what comes from then on."""
        self.has_content = False
        """Whether it begins with rows that its streams retain, and has not matched them yet."""
        self._unsettled = 0  # runs since memory was last given back
        self._feed: StaticFeed | None = None
        self._began: int | None = None  # the first instant of queries that have no static data yet
        self._awaits_static = False
        self._first: int | None = None  # instant of the queries, as far as it has been seen here
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
        view = super().add(query, arena, limits)
        if self._feed is None:
            self._feed = StaticFeed(self.static, arena)
        if not self._awaits_static:
            self._began = None
        self._awaits_static = True
        return view

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
        return None if any(isinstance(w, Unbounded | Count) for w in windows) else longest(windows)

    def horizon(self) -> int | None:
        """The earliest event time that can still matter, or None where everything does."""
        reach = self.reach()
        # Empty reports begin with the first answer that there ever was: who starts anew has to find it.
        if reach is None or any(query.reports_empty for query, _ in self._routes.active()):
            return None
        waiting = [int(rows.time.min()) for rows in self._merge.waiting]
        return min([max(self.bound, NO_TIME + reach) - reach, *waiting])

    # Static data

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

    # Work

    def run(self, intern: Interner) -> None:
        """Processes everything up to the smallest watermark of the streams."""
        self.catch_up()
        bound = self._merge.target(longest(self._windows()) if self._merge.drains else 0)
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
            found = self._event_static.keep(found, self._units_of_events(matcher.program), matcher.program)
        elif events is not None:
            units = self._units_of_events(matcher.program)
            found = self._event_static.join(found, events, units, matcher.program)
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

    def _settle(self, fed: int) -> None:
        """Gives back memory of what has ended; as many rows as were fed now may come again at once."""
        if self._matcher is not None:
            self._matcher.settle(self.bound)
            if self._registrations.generation:
                self._join_generations(self._matcher)
        self._routes.settle(self.bound, fed)
        self._merge.give_back(fed)

    # Saving

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
