"""Routing: from the units of a program to the views of their queries, and when each view is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.errors import DataError, LimitError, warn
from thalweg.kernels.store import FOREVER, INSERT
from thalweg.kernels.times import NO_TIME
from thalweg.operators.feeds import GENERATION
from thalweg.operators.product import Product
from thalweg.operators.runs import runs
from thalweg.operators.spans import Spans
from thalweg.operators.state import State
from thalweg.operators.views import EventView, View
from thalweg.plan.compile import plan_of
from thalweg.plan.program import Program
from thalweg.rdf.events import Rows

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Route:
    """Where the solutions of a unit go: to the view of a query, or as one part of a product that goes there."""

    query: int
    leaf: int
    product: Product | None
    part: int


class Routes:
    """The queries of a streamset with their views, the ways of solutions to them, and the views' due times."""

    def __init__(self) -> None:
        self.queries: list[tuple[Query, View]] = []
        """In the order of registration, those that were removed included: programs number them so."""
        self.removed: set[int] = set()
        self._routes: list[_Route] = []
        self._products: dict[tuple[int, int], Product] = {}  # by query and leaf
        self._due_at = np.empty(0, np.int64)  # by query: when its view has something to emit
        self._earliest = int(FOREVER)  # none of them is before this
        self._every_event: list[int] = []  # queries that may answer events without a match
        self._loose: set[int] = set()  # queries whose views may have memory to give back

    def __len__(self) -> int:
        return len(self.queries) - len(self.removed)

    def active(self) -> Iterator[tuple[Query, View]]:
        """The queries that were not removed, with their views."""
        for number, pair in enumerate(self.queries):
            if number not in self.removed:
                yield pair

    def add(self, query: Query, view: View) -> None:
        """Takes a query in."""
        if isinstance(view, EventView) and view.needs_events:
            self._every_event.append(len(self.queries))
        self.queries.append((query, view))
        self._due_at = np.append(self._due_at, FOREVER)

    def remove(self, number: int) -> None:
        """Lets a query go, with its answers and the parts of its product."""
        self.removed.add(number)
        self._due_at[number] = FOREVER
        self._loose.discard(number)
        self.queries[number][1].clear()
        for (query, _), product in self._products.items():
            if query == number:
                product.clear()

    def renumber(self) -> list[int]:
        """Forgets the queries that were removed, and numbers the others anew; answers their former numbers.

        A program that has these numbers must follow.
        """
        kept = [number for number in range(len(self.queries)) if number not in self.removed]
        self.queries = [self.queries[number] for number in kept]
        self._due_at = self._due_at[kept]
        places = {number: place for place, number in enumerate(kept)}
        self._loose = {places[number] for number in self._loose}
        self._every_event = [places[number] for number in self._every_event if number in places]
        self._products = {
            (places[number], leaf): product
            for (number, leaf), product in self._products.items()
            if number in places
        }
        self.removed = set()
        self._routes = []
        return kept

    def follow(self, program: Program) -> None:
        """Decides for each unit of a program where its solutions go.

        Where units had a way already, it stays; a program of other queries comes after `renumber`.
        """
        so_far = program.units[len(self._routes) :]
        for (number, leaf), parts in groupby(so_far, key=lambda unit: (unit.query, unit.leaf)):
            query, _ = self.queries[number]
            units = list(parts)
            product = self._products.get((number, leaf))
            if len(units) > 1 and product is None:
                names = plan_of(query).leaves[leaf].shown
                columns = [[names.index(name) for name in unit.shown] for unit in units]
                product = self._products[number, leaf] = Product(columns, per_event=query.per_event)
            self._routes += [_Route(number, leaf, product, part) for part in range(len(units))]

    def deliver(self, spans: Spans, now: int) -> None:
        """Hands solutions to the views of their queries; no later one begins before `now`."""
        if len(self._routes) == 1:
            self._step(0, spans, 0)
            return
        event = int(spans.event[-1])
        stepped: dict[int, Product] = {}
        spans = spans[np.argsort(spans.unit, kind="stable")]
        for start, end in runs(spans.unit):
            route = self._routes[spans.unit[start]]
            if route.query in self.removed:  # re-evaluation goes on with it
                continue
            part = spans[start:end]
            if route.product is not None:
                stepped[id(route.product)] = route.product
                part = route.product.step(route.part, part)
            self._step(route.query, part, route.leaf)
        for product in stepped.values():
            product.tidy(now, event)

    def see_events(self, feed: Ints, rows: Rows, streams: Sequence[str], generations: Sequence[int]) -> None:
        """Tells the views that need all events of those that insert some of these rows; `feed` has their streams."""
        for number in self._every_event:
            query, view = self.queries[number]
            if number in self.removed or not isinstance(view, EventView) or view.failure is not None:
                continue
            mine = [k for k, stream in enumerate(streams) if stream in query.streams]
            chosen = np.isin(feed & ((1 << GENERATION) - 1), mine) & (rows.op == INSERT)
            chosen &= feed >> GENERATION >= generations[number]
            event, first = np.unique(rows.event[chosen], return_index=True)
            if len(event):
                view.see(np.stack([event, rows.time[chosen][first], rows.graph[chosen][first]], axis=1))
                self.note_due(number)

    def _step(self, number: int, spans: Spans, leaf: int) -> None:
        """Hands solutions to the view of a query; one that has failed takes none."""
        view = self.queries[number][1]
        if view.failure is None:
            view.step(spans, leaf)
            self.note_due(number)

    def open(self, at: int) -> None:
        """Takes the time of an event or of an `advance`, for the queries that have not begun."""
        for _, view in self.active():
            if view.awaits_start:
                view.open(at)

    def start(self, bound: int) -> None:
        """Begins the queries whose first instant has come."""
        for number, (_, view) in enumerate(self.queries):
            if number not in self.removed and view.start(bound):
                self.note_due(number)

    @property
    def awaits_start(self) -> bool:
        """Whether some query has rows that begin with its first instant, and have not begun."""
        return any(view.awaits_start for _, view in self.active())

    def note_due(self, number: int) -> None:
        """Notes when the view of a query has something to emit."""
        if number in self.removed:
            return
        view = self.queries[number][1]
        due = view.due
        if view.failure is not None:
            # Who reads the stream that is derived from it must not go on as if nothing had happened.
            due = None if view.on_delta is None else NO_TIME
        self._due_at[number] = FOREVER if due is None else due
        if due is not None:
            self._earliest = min(self._earliest, due)

    def advance(self, bound: int) -> None:
        """Lets the views that are due emit. One that fails does so after the others.

        One that needs more than a limit allows has failed for good, and the others go on.
        """
        # Most views of many have nothing to emit most of the time: they are not called.
        if self._earliest > bound:
            return
        failure: DataError | LimitError | None = None
        for number in self._due(bound):
            view = self.queries[number][1]
            try:
                if view.failure is not None:
                    raise view.failure
                view.advance(bound)
            except DataError as error:
                failure = error
            except LimitError as error:
                self._fail(number, error)
                if view.on_delta is not None:
                    failure = error
            self.note_due(number)
            self._loose.add(number)
        self._earliest = self._due_at.item(0) if len(self._due_at) == 1 else int(self._due_at.min())
        if failure is not None:
            raise failure

    def _fail(self, number: int, error: LimitError) -> None:
        """Ends a query that needs more than a limit allows."""
        view = self.queries[number][1]
        if view.failure is None:
            view.fail(error)
            warn(f"a query has ended: {error.reason}")

    def _due(self, bound: int) -> list[int]:
        """The queries whose views have something to emit by then."""
        if len(self._due_at) == 1:  # without the fixed cost of NumPy
            return [0] if self._due_at.item(0) <= bound else []
        found: list[int] = np.flatnonzero(self._due_at <= bound).tolist()
        return found

    def begin(self, bound: int) -> None:
        """Lets all views begin with the answer at `bound`, instead of what led to it."""
        for number, (_, view) in enumerate(self.queries):
            if number not in self.removed:
                try:
                    view.begin(bound)
                except LimitError as error:
                    self._fail(number, error)
                self.note_due(number)
                self._loose.add(number)

    def settle(self, bound: int, fed: int) -> None:
        """Gives back memory of what has ended; as many rows as were fed now may come again at once."""
        for product in self._products.values():
            product.settle(bound)
        if self._loose:
            self._loose = {number for number in self._loose if not self.queries[number][1].give_back(fed)}

    def live_ids(self) -> Iterator[Ints]:
        """The term ids that views and products use."""
        for _, view in self.active():
            yield from view.live_ids()
        for product in self._products.values():
            yield from product.live_ids()

    @property
    def held(self) -> int:
        """How many rows views and products keep."""
        return sum(view.held for _, view in self.active()) + sum(
            product.held for product in self._products.values()
        )

    @property
    def nbytes(self) -> int:
        """The memory of views and products."""
        views = sum(view.nbytes for _, view in self.active())
        return views + sum(product.nbytes for product in self._products.values())

    def operator_bytes(self) -> Counter[str]:
        """The memory of the pipelines of all queries, by the names of operators."""
        found: Counter[str] = Counter()
        for _, view in self.active():
            found.update(view.memory())
        return found

    def state(self) -> State:
        """The state of views and products."""
        return {
            "removed": sorted(self.removed),
            "views": [view.state() for _, view in self.queries],
            "products": [product.state() for _, product in sorted(self._products.items())],
        }

    def restore_views(self, state: State) -> None:
        """Goes on with the views of a saved streamset with the same queries."""
        self.removed = set(state["removed"])
        for (_, view), saved in zip(self.queries, state["views"], strict=True):
            view.restore(saved)
        for number in range(len(self.queries)):
            self.note_due(number)

    def restore_products(self, state: State) -> None:
        """Goes on with the products, once a program is there."""
        products = [product for _, product in sorted(self._products.items())]
        for product, saved in zip(products, state["products"], strict=True):
            product.restore(saved)
