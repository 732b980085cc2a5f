"""The streamset: streams that some queries join, merged by time, with the windows and views of those queries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.windows import TRIPLES, Count, Range, Unbounded, Window
from thalweg.errors import DataError, UsageError
from thalweg.kernels.layout import ABSENT, OUT_FROM, OUT_TO, OUT_UNIT
from thalweg.kernels.store import FOREVER
from thalweg.operators.feeds import CountFeeds, in_order, split
from thalweg.operators.habits import Learner
from thalweg.operators.matcher import Matcher
from thalweg.operators.product import Product
from thalweg.operators.reevaluate import Reevaluator
from thalweg.operators.runs import runs
from thalweg.operators.state import State
from thalweg.operators.views import View, view_of
from thalweg.plan.program import (
    Interner,
    Program,
    StoreKey,
    compile_program,
    shown_variables,
    store_key,
    wanted_predicates,
)
from thalweg.rdf.arena import Arena

Ints = NDArray[np.int64]
Strategy = Literal["incremental", "reevaluate"]
Columns = tuple[Ints, ...]  # time, event, graph, s, p, o, op

BEGINNING = int(np.iinfo(np.int64).min)
_NONE = np.empty(0, np.int64)
_FEW_ZEROS = 1 << 12


@dataclass
class _Queue:
    """Rows of one stream that wait until every stream of the set has got as far."""

    parts: list[Columns] = field(default_factory=list)
    watermark: int = BEGINNING
    clock: int = BEGINNING
    finished: bool = False


@dataclass(frozen=True)
class _Route:
    """Where the solutions of a unit go: to a view, or as one part of a product that goes there."""

    query: int
    view: View
    product: Product | None
    part: int


class Streamset:
    """Streams merged by time; the queries over them share stores, dispatch and one run of the kernel."""

    def __init__(self, streams: Sequence[str], strategy: Strategy = "incremental") -> None:
        self.streams = tuple(streams)
        self.strategy = strategy
        self._again: Reevaluator | None = None
        self.started = False
        self._queues = {stream: _Queue() for stream in self.streams}
        self._queries: list[tuple[Query, View]] = []
        self.windows: set[StoreKey] = set()
        self._gone: set[int] = set()
        self._due_at = np.empty(0, np.int64)  # by query: when its view has something to say
        self._earliest = int(FOREVER)  # none of them is before this
        self._loose: set[int] = set()  # queries whose views may have memory to give back
        self._matcher: Matcher | None = None
        self._learner = Learner()
        self._routes: list[_Route] = []
        self._products: list[Product] = []
        self._counts: CountFeeds | None = None
        self._counting: list[int] = []
        self._zeros = _NONE
        self._bound = BEGINNING
        self._drain = False

    def add(self, query: Query, arena: Arena) -> View:
        """Takes a query in; only before the first row. The arena is that of all rows."""
        view = view_of(query, arena)
        self._queries.append((query, view))
        self.windows.update(store_key(source) for source in query.sources)
        self._due_at = np.append(self._due_at, FOREVER)
        self._matcher = self._again = None
        return view

    def remove(self, view: View, intern: Interner) -> None:
        """Lets a query go; the others keep their windows."""
        number = next(k for k, (_, other) in enumerate(self._queries) if other is view)
        self._gone.add(number)
        self._due_at[number] = FOREVER
        if self._matcher is not None:
            self._matcher.replace_program(self._compile(intern))
        self._leave(number, intern)

    def _leave(self, number: int, intern: Interner) -> None:
        """Lets go of what only a query that is gone has used: answers, parts of products, rows of windows."""
        view = self._queries[number][1]
        view.clear()
        self._loose.discard(number)
        for route in self._routes:
            if route.query == number and route.product is not None:
                route.product.clear()
        self.windows = {store_key(source) for query, _ in self._active() for source in query.sources}
        if self._matcher is not None:
            queries = [query for query, _ in self._active()]
            for store, key in enumerate(self._matcher.program.stores):
                self._matcher.stores.keep(store, wanted_predicates(queries, key, intern))
        if self._counts is not None:
            self._counts.leave(view, self.windows)

    def __len__(self) -> int:
        return len(self._queries) - len(self._gone)

    def feed(self, stream: str, rows: Columns | None, clock: int, watermark: int) -> None:
        """Takes rows of one stream, none before an earlier watermark, its latest time and its new watermark."""
        queue = self._queues[stream]
        if rows is not None and len(rows[0]):
            self.started = True
            queue.parts.append(rows)
        queue.clock = max(queue.clock, clock)
        queue.watermark = max(queue.watermark, watermark)

    def finish(self, streams: Collection[str], *, drain: bool) -> None:
        """Ends streams; `drain` lets time run on until the windows are empty."""
        for name, queue in self._queues.items():
            queue.finished = queue.finished or name in streams
        self._drain = self._drain or drain

    @property
    def bound(self) -> int:
        """How far the queries have come: everything before this instant has been processed."""
        return self._bound

    @property
    def finished(self) -> bool:
        """Whether all streams have ended."""
        return all(queue.finished for queue in self._queues.values())

    @property
    def drains(self) -> bool:
        """Whether time runs on after the end of the streams."""
        return self._drain

    @property
    def counts_triples(self) -> bool:
        """Whether the order of the triples of an event matters: some window is [TRIPLES n]."""
        return any(isinstance(window, Count) and window.unit == TRIPLES for window in self._windows())

    def reopen(self, stream: str) -> None:
        """Takes an ended stream as running again. What comes on it before `bound` is late: the caller sees to that."""
        self._queues[stream].finished = False

    def reach(self) -> int | None:
        """How long after an event the windows can still hold it; None: for ever."""
        windows = list(self._windows())
        return None if any(isinstance(w, Unbounded | Count) for w in windows) else self._longest(windows)

    def _windows(self) -> Iterator[Window]:
        return (source.window for query, _ in self._active() for source in query.sources)

    @staticmethod
    def _longest(windows: Iterable[Window]) -> int:
        """How long after an event the last change that time alone brings can come."""
        return max((w.reach for w in windows if isinstance(w, Range | Count)), default=0)

    def _target(self) -> int:
        """How far time has come: the smallest watermark of the streams that have not ended."""
        running = [queue.watermark for queue in self._queues.values() if not queue.finished]
        if running:
            return min(running)
        last = max(queue.clock for queue in self._queues.values())
        if last == BEGINNING:
            return last
        end = last + 1 + (self._longest(self._windows()) if self._drain else 0)
        return max(end, *(queue.watermark for queue in self._queues.values()))

    def run(self, intern: Interner) -> None:
        """Processes everything up to the smallest watermark of the streams."""
        bound = self._target()
        feed, columns = self._due(bound)
        if len(feed) or self.strategy == "reevaluate":
            self._prepare(intern)
        if self._counts is not None:
            feed, columns = self._counts.step(feed, columns, bound)
            for number in self._counting:
                if number not in self._gone:
                    self._note_due(number)
        if self._again is not None:
            for solutions in self._again.step(feed, columns, bound):
                self._deliver(solutions, now=int(solutions[0, OUT_FROM]))
        elif len(feed):
            matcher = self.matcher(intern)
            for solutions in matcher.step(feed, *columns):
                self._deliver(solutions, now=int(columns[0][0]))
            if self._learner.is_due(matcher, len(self._queries)):
                now, queries = int(columns[0][-1]), [query for query, _ in self._queries]
                if self._learner.look(matcher, queries, intern, now):
                    matcher.replan(self._compile(intern), now)
        later, self._bound = bound > self._bound, max(self._bound, bound)
        failure: DataError | None = None
        # Most views of many have nothing to say most of the time: they are not even asked.
        if self._earliest <= bound:
            for number in np.flatnonzero(self._due_at <= bound).tolist():
                view = self._queries[number][1]
                try:
                    view.advance(bound)
                except DataError as error:  # the others go on
                    failure = error
                self._note_due(number)
                if not view.give_back(len(feed)):
                    self._loose.add(number)
            self._earliest = int(self._due_at.min())
        if later:
            self._settle(len(feed))
        if failure is not None:
            raise failure

    def _settle(self, fed: int) -> None:
        """Gives back memory of what has ended; as many rows as were fed now may come again at once."""
        if self._matcher is not None:
            self._matcher.settle(self._bound)
        for product in self._products:
            product.settle(self._bound)
        if self._loose:
            self._loose = {number for number in self._loose if not self._queries[number][1].give_back(fed)}
        if len(self._zeros) > 8 * fed + _FEW_ZEROS:
            self._zeros = _NONE

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
        self._route(program)
        counts = CountFeeds(program, self._queries, intern)
        self._counts = counts if len(counts) else None
        self._counting = [number for number, (query, _) in enumerate(self._queries) if query.by_count]

    def _route(self, program: Program) -> None:
        """Decides for each unit of the program where its solutions go."""
        self._routes = []
        self._products = []
        for number, parts in groupby(program.units, key=lambda unit: unit.query):
            query, view = self._queries[number]
            units = list(parts)
            product = None
            if len(units) > 1:
                names = shown_variables(query)
                columns = [[names.index(name) for name in unit.shown] for unit in units]
                product = Product(columns, per_event=query.per_event)
                self._products.append(product)
            self._routes += [_Route(number, view, product, part) for part in range(len(units))]

    def _compile(self, intern: Interner) -> Program:
        queries = [query for query, _ in self._queries]
        return compile_program(self.streams, queries, intern, self._gone, self._learner.habits)

    def _active(self) -> Iterator[tuple[Query, View]]:
        for number, pair in enumerate(self._queries):
            if number not in self._gone:
                yield pair

    def _deliver(self, solutions: Ints, now: int) -> None:
        """Hands solutions to the views of their queries; no later one begins before `now`."""
        if len(self._routes) == 1:
            self._routes[0].view.step(solutions)
            self._note_due(0)
            return
        event = int(solutions[-1, OUT_TO])
        news: dict[int, Product] = {}
        solutions = solutions[np.argsort(solutions[:, OUT_UNIT], kind="stable")]
        for start, end in runs(solutions[:, OUT_UNIT]):
            route = self._routes[solutions[start, OUT_UNIT]]
            if route.query in self._gone:  # re-evaluation goes on with it
                continue
            part = solutions[start:end]
            if route.product is not None:
                news[id(route.product)] = route.product
                part = route.product.step(route.part, part)
            route.view.step(part)
            self._note_due(route.query)
        for product in news.values():
            product.tidy(now, event)

    def _note_due(self, number: int) -> None:
        due = self._queries[number][1].due
        if due is None:
            self._due_at[number] = FOREVER
        else:
            self._due_at[number] = due
            self._earliest = min(self._earliest, due)

    def _due(self, bound: int) -> tuple[Ints, Columns]:
        """Takes the rows up to `bound` from the queues, in time order; within an instant by stream, as they came."""
        if len(self._queues) == 1:
            (queue,) = self._queues.values()
            # No row is later than the clock.
            taken, queue.parts = (queue.parts, []) if queue.clock <= bound else split(queue.parts, bound)
            rows = sum(len(columns[0]) for columns in taken)
            if rows > len(self._zeros):
                self._zeros = np.zeros(2 * rows, np.int64)
            return in_order(self._zeros[:rows], taken) if taken else (_NONE, ())
        feeds: list[Ints] = []
        parts: list[Columns] = []
        for number, queue in enumerate(self._queues.values()):
            taken, queue.parts = split(queue.parts, bound)
            feeds += [np.full(len(columns[0]), number, np.int64) for columns in taken]
            # Each stream numbers its own events; [NOW] must tell them apart.
            parts += [(c[0], c[1] * len(self._queues) + number, *c[2:]) for c in taken]
        return in_order(np.concatenate(feeds), parts) if parts else (_NONE, ())

    def live_ids(self) -> Iterator[Ints]:
        """The term ids that stores, queues and views still use."""
        for keeper in (self._matcher, self._again):
            if keeper is not None:
                yield from keeper.live_ids()
        for queue in self._queues.values():
            for _, _, graph, s, p, o, _ in queue.parts:
                yield from (graph, s, p, o)
        for _, view in self._active():
            yield from view.live_ids()
        for product in self._products:
            yield from product.live_ids()
        if self._counts is not None:
            yield from self._counts.live_ids()

    def state(self) -> State:
        """Everything but the queries themselves."""
        if self.strategy != "incremental":
            raise UsageError("a session that re-evaluates cannot be saved: it is for comparison")
        return {
            "started": self.started,
            "bound": self._bound,
            "drain": self._drain,
            "gone": sorted(self._gone),
            "queues": {
                name: {
                    "parts": queue.parts,
                    "watermark": queue.watermark,
                    "clock": queue.clock,
                    "finished": queue.finished,
                }
                for name, queue in self._queues.items()
            },
            "learner": self._learner.state(),
            "views": [view.state() for _, view in self._queries],
            "matcher": self._matcher.state() if self._matcher is not None else None,
            "products": [product.state() for product in self._products],
            "counts": self._counts.state() if self._counts is not None else None,
        }

    def restore(self, state: State, intern: Interner) -> None:
        """Goes on where a saved streamset with the same queries was."""
        self.started, self._bound, self._drain = state["started"], state["bound"], state["drain"]
        self._gone = set(state["gone"])
        for name, saved in state["queues"].items():
            parts = [tuple(columns) for columns in saved["parts"]]
            self._queues[name] = _Queue(parts, saved["watermark"], saved["clock"], saved["finished"])
        self._learner.restore(state["learner"])
        for (_, view), saved in zip(self._queries, state["views"], strict=True):
            view.restore(saved)
        for number, _ in enumerate(self._queries):
            if number not in self._gone:
                self._note_due(number)
        if state["matcher"] is not None:
            self.matcher(intern).restore(state["matcher"])
        for product, saved in zip(self._products, state["products"], strict=True):
            product.restore(saved)
        if self._counts is not None:
            self._counts.restore(state["counts"])
        for number in self._gone:
            self._leave(number, intern)

    def horizon(self) -> int | None:
        """The earliest event time that can still matter, or None where everything does."""
        reach = self.reach()
        # Empty reports begin with the first answer that there ever was: who starts anew has to find it.
        if reach is None or any(query.tells_empty for query, _ in self._active()):
            return None
        waiting = [int(columns[0].min()) for queue in self._queues.values() for columns in queue.parts]
        return min([max(self._bound, BEGINNING + reach) - reach, *waiting])

    @property
    def live(self) -> int:
        """How many rows the windows hold."""
        return self._matcher.stores.live if self._matcher is not None else 0

    @property
    def held(self) -> int:
        """How many rows are kept in all: by windows, queues, views, products and countings."""
        queued = sum(len(columns[0]) for queue in self._queues.values() for columns in queue.parts)
        views = sum(view.held for _, view in self._active())
        counts = self._counts.held if self._counts is not None else 0
        return self.live + queued + views + counts + sum(product.held for product in self._products)

    @property
    def absent(self) -> int:
        """How many deletes found nothing to delete."""
        return int(self._matcher.counters[ABSENT]) if self._matcher is not None else 0

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
        """The memory of what views wait for or count, and of the parts of products."""
        views = sum(view.nbytes for _, view in self._active())
        counts = self._counts.nbytes if self._counts is not None else 0
        return views + counts + sum(product.nbytes for product in self._products)
