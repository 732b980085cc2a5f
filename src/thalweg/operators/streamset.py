"""The streamset: streams that some queries join, merged by time, with the windows and views of those queries."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.windows import ELEMENTS, TRIPLES, Count, Range, Unbounded, Window
from thalweg.errors import UsageError
from thalweg.kernels.layout import ABSENT
from thalweg.kernels.times import NO_TIME
from thalweg.operators.feeds import CountFeeds
from thalweg.operators.matcher import Matcher
from thalweg.operators.merging import Merge
from thalweg.operators.reevaluate import Reevaluator
from thalweg.operators.routing import Routes
from thalweg.operators.state import State
from thalweg.operators.statistics import StatisticsCollector
from thalweg.operators.views import View, view_of
from thalweg.plan.program import (
    Interner,
    Program,
    StoreKey,
    compile_program,
    store_key,
    wanted_predicates,
)
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import Rows

Ints = NDArray[np.int64]
Strategy = Literal["incremental", "reevaluate"]
_SETTLE_EVERY = 16
_MANY = 256


class Streamset:
    """Streams merged by time; the queries over them share stores, dispatch and one run of the kernel."""

    def __init__(self, streams: Sequence[str], strategy: Strategy = "incremental") -> None:
        self.streams = tuple(streams)
        self.strategy = strategy
        self.started = False
        """Whether a row has come: then no query can be added."""
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
        self._counts: CountFeeds | None = None
        self._counting: list[int] = []
        self._unsettled = 0  # runs since memory was last given back
        self.awaits_start = False
        """Whether some query has rows that begin with its first instant, and have not begun."""
        self._first_instant: int | None = None

    # Queries

    def add(self, query: Query, arena: Arena) -> View:
        """Takes a query in; only before the first row. The arena is that of all rows."""
        view = view_of(query, arena)
        self._routes.add(query, view)
        self.windows.update(store_key(source) for source in query.sources)
        self.counts_events = _counts_events(self.windows)
        self._matcher = self._again = None
        self.awaits_start = self.awaits_start or view.awaits_start
        return view

    def remove(self, view: View, intern: Interner) -> None:
        """Lets a query go; the others keep their windows."""
        number = next(k for k, (_, other) in enumerate(self._routes.queries) if other is view)
        self._routes.remove(number)
        if self._matcher is not None:
            self._matcher.replace_program(self._compile(intern))
        self._let_go(intern)

    def _let_go(self, intern: Interner) -> None:
        """Lets go of what only queries have used that are gone: rows of windows, and what was counted."""
        self.windows = {store_key(source) for query, _ in self._routes.active() for source in query.sources}
        self.counts_events = _counts_events(self.windows)
        if self._matcher is not None:
            queries = [query for query, _ in self._routes.active()]
            for store, key in enumerate(self._matcher.program.stores):
                self._matcher.stores.keep(store, wanted_predicates(queries, key, intern))
        if self._counts is not None:
            for number in self._routes.removed:
                self._counts.leave(self._routes.queries[number][1], self.windows)

    def __len__(self) -> int:
        return len(self._routes)

    @property
    def registered(self) -> list[tuple[Query, View]]:
        """The queries and their views in the order of registration, those that were removed included."""
        return self._routes.queries

    # Time

    def push(self, stream: str, rows: Rows | None, clock: int, watermark: int) -> None:
        """Takes rows of one stream, none before an earlier watermark, its latest time and its new watermark."""
        self.started = self.started or (rows is not None and len(rows) > 0)
        self._merge.push(stream, rows, clock, watermark)

    def open(self, at: int) -> None:
        """Takes the time of an event or of an `advance`, with or without rows: the earliest is the first instant."""
        self._first_instant = at if self._first_instant is None else min(self._first_instant, at)

    def finish(self, streams: Collection[str], *, drain: bool) -> None:
        """Ends streams; `drain` lets time run on until the windows are empty."""
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
        return (source.window for query, _ in self._routes.active() for source in query.sources)

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
        bound = self._merge.target(_longest(self._windows()) if self._merge.drains else 0)
        feed, rows = self._merge.take(bound)
        if len(feed) or self.strategy == "reevaluate":
            self._prepare(intern)
        if self._counts is not None:
            feed, rows = self._counts.step(feed, rows, bound)
            for number in self._counting:
                self._routes.note_due(number)
        if self._again is not None:
            for spans in self._again.step(feed, rows, bound):
                self._routes.deliver(spans, now=int(spans.begin[0]))
        elif len(feed):
            self._match(feed, rows, intern)
        if self.awaits_start and self._first_instant is not None and self._first_instant <= bound:
            self.awaits_start = False
            self._routes.start(self._first_instant)
        later, self.bound = bound > self.bound, max(self.bound, bound)
        try:
            self._routes.advance(bound)
        finally:
            self._unsettled += 1
            # While rows come, their expiry is looked at now and then; without any, at once.
            if later and (not len(feed) or self._unsettled >= _SETTLE_EVERY or len(feed) >= _MANY):
                self._unsettled = 0
                self._settle(len(feed))

    def _match(self, feed: Ints, rows: Rows, intern: Interner) -> None:
        matcher = self.matcher(intern)
        for spans in matcher.step(feed, rows):
            self._routes.deliver(spans, now=int(rows.time[0]))
        queries = self._routes.queries
        if self._collector.is_due(matcher, len(queries)):
            now = int(rows.time[-1])
            if self._collector.collect(matcher, [query for query, _ in queries], intern, now):
                matcher.replan(self._compile(intern), now)

    def _settle(self, fed: int) -> None:
        """Gives back memory of what has ended; as many rows as were fed now may come again at once."""
        if self._matcher is not None:
            self._matcher.settle(self.bound)
        self._routes.settle(self.bound, fed)
        self._merge.give_back(fed)

    def matcher(self, intern: Interner) -> Matcher:
        """The matcher, made when it is first needed."""
        if self._matcher is None:
            self._matcher = Matcher(self._compile(intern))
            self._set_up(self._matcher.program, intern)
        return self._matcher

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
        counts = CountFeeds(program, self._routes.queries, intern)
        self._counts = counts if len(counts) else None
        self._counting = [k for k, (query, _) in enumerate(self._routes.queries) if query.by_count]

    def _compile(self, intern: Interner) -> Program:
        queries = [query for query, _ in self._routes.queries]
        return compile_program(
            self.streams, queries, intern, self._routes.removed, self._collector.statistics
        )

    # Memory

    def live_ids(self) -> Iterator[Ints]:
        """The term ids that stores, queues and views still use."""
        for keeper in (self._matcher, self._again):
            if keeper is not None:
                yield from keeper.live_ids()
        for rows in self._merge.waiting:
            yield from rows.ids
        yield from self._routes.live_ids()
        if self._counts is not None:
            yield from self._counts.live_ids()

    @property
    def live(self) -> int:
        """How many rows the windows hold."""
        return self._matcher.stores.live if self._matcher is not None else 0

    @property
    def held(self) -> int:
        """How many rows are kept in all: by windows, queues, views, products and countings."""
        counts = self._counts.held if self._counts is not None else 0
        return self.live + sum(map(len, self._merge.waiting)) + self._routes.held + counts

    @property
    def absent(self) -> int:
        """How many deletes found nothing to delete."""
        return self._matcher.counters.item(ABSENT) if self._matcher is not None else 0

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
        return self._routes.nbytes + (self._counts.nbytes if self._counts is not None else 0)

    def operator_bytes(self) -> Counter[str]:
        """The memory of the operators of all queries, by their names."""
        return self._routes.operator_bytes()

    # Saving

    def digest(self) -> str:
        """A digest of the queries' trees and windows, by which a saved state is known to fit."""
        parts = [(query.sources, query.operator, query.root) for query, _ in self._routes.queries]
        return hashlib.sha256(repr((self.streams, parts)).encode()).hexdigest()[:32]

    def state(self) -> State:
        """Everything but the queries themselves."""
        if self.strategy != "incremental":
            raise UsageError("a session that re-evaluates cannot be saved: it is for comparison")
        return {
            "plan": self.digest(),
            "started": self.started,
            "bound": self.bound,
            "first_instant": self._first_instant,
            "merge": self._merge.state(),
            "statistics": self._collector.state(),
            "routes": self._routes.state(),
            "matcher": self._matcher.state() if self._matcher is not None else None,
            "counts": self._counts.state() if self._counts is not None else None,
        }

    def restore(self, state: State, intern: Interner) -> None:
        """Goes on where a saved streamset with the same queries was."""
        if state["plan"] != self.digest():
            raise UsageError("the saved state belongs to other queries, or to another version of their plans")
        self.started, self.bound = state["started"], state["bound"]
        self._first_instant = state["first_instant"]
        self._merge.restore(state["merge"])
        self._collector.restore(state["statistics"])
        self._routes.restore_views(state["routes"])
        self.awaits_start = self._routes.awaits_start
        if state["matcher"] is not None:
            self.matcher(intern).restore(state["matcher"])
        self._routes.restore_products(state["routes"])
        if self._counts is not None:
            self._counts.restore(state["counts"])
        if self._routes.removed:
            for number in self._routes.removed:
                self._routes.remove(number)
            self._let_go(intern)


def _counts_events(windows: Iterable[StoreKey]) -> bool:
    return any(isinstance(window, Count) and window.unit == ELEMENTS for _, window in windows)


def _longest(windows: Iterable[Window]) -> int:
    """How long after an event the last change that time alone brings can come."""
    return max((w.reach for w in windows if isinstance(w, Range | Count)), default=0)
