"""Statistics of the data: how many rows index probes find, measured on samples of the live rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.terms import Const, Pattern
from thalweg.kernels.layout import COUNTERS, FOUND, INSERTED, WALKED
from thalweg.kernels.steps import mean_chain_length
from thalweg.kernels.store import ROW_O, ROW_P, ROW_S, ROW_TO, SPO
from thalweg.operators.matcher import Matcher
from thalweg.operators.state import State
from thalweg.plan.delta import plan_component
from thalweg.plan.program import Interner, Statistics, store_key, units_of
from thalweg.plan.shapes import FEW_QUERIES

Ints = NDArray[np.int64]

_SAMPLE = 4096  # rows sampled from a store
_KEYS = 48  # keys tried for each index of a pattern
_MOST = 2048  # rows counted for a key
_HUB = 1000  # rows of a key from which on other orders are worth their indexes
_FIRST_PERIOD = 1 << 10
_LONGEST_PERIOD = 1 << 18
_EXCESS_WORK = 40  # rows walked in vain for each row inserted from which on statistics are due at once


class StatisticsCollector:
    """Collects statistics at growing intervals, and decides whether they call for other plans."""

    def __init__(self) -> None:
        self.statistics = Statistics()
        self._due_at = _FIRST_PERIOD
        self._seen = np.zeros(COUNTERS, np.int64)
        self._walked = 0  # at the last check for excess work

    def is_due(self, matcher: Matcher, queries: int) -> bool:
        """Whether statistics are due: after enough rows, or at once on excess work; called after each batch."""
        item = matcher.counters.item
        elapsed = item(INSERTED) >= self._due_at
        if elapsed and queries <= FEW_QUERIES:
            return True
        if not elapsed and item(WALKED) - self._walked <= _EXCESS_WORK * _FIRST_PERIOD:
            return False
        self._walked = item(WALKED)
        excess = self._has_excess_work(matcher)
        if elapsed and not excess:
            self._begin(matcher.counters)
        return excess

    def _begin(self, counters: Ints) -> None:
        """Begins another period, over which work is counted and after which statistics are due."""
        inserted = int(counters[INSERTED])
        period = inserted - int(self._seen[INSERTED])
        self._due_at = inserted + min(4 * period + 1, _LONGEST_PERIOD)
        self._seen, self._walked = counters.copy(), int(counters[WALKED])

    def _has_excess_work(self, matcher: Matcher) -> bool:
        """Whether many more rows were walked in this period than solutions were found."""
        done = matcher.counters - self._seen
        # A shared plan may walk up to what probing for each unit by itself would cost.
        limit = max(_EXCESS_WORK, matcher.program.shared) * (int(done[INSERTED]) + _FIRST_PERIOD)
        return not self.statistics.hubs and int(done[WALKED] - done[FOUND]) > limit

    def collect(
        self, matcher: Matcher, queries: Sequence[Query], epochs: Sequence[int], intern: Interner, now: int
    ) -> bool:
        """Measures; answers whether other plans are better now."""
        excess = self._has_excess_work(matcher)
        self._begin(matcher.counters)
        # What shared plans probe is not what each unit would.
        measured = (
            self.statistics
            if matcher.program.shared > 1
            else self._measure(matcher, queries, epochs, intern, now)
        )
        if excess:  # that is a hub, whether the sample has met it or not
            measured = replace(measured, hubs=True)
        before, self.statistics = self.statistics, measured
        return measured.hubs != before.hubs or any(
            _orders(query, before, number) != _orders(query, measured, number)
            for number, query in enumerate(queries)
        )

    def state(self) -> State:
        """The statistics and the current period."""
        fanout = [
            [query, pattern, index, rows]
            for query, found in self.statistics.fanout.items()
            for (pattern, index), rows in found.items()
        ]
        return {"fanout": fanout, "hubs": self.statistics.hubs, "due_at": self._due_at, "seen": self._seen}

    def restore(self, state: State) -> None:
        """Goes on from what `state` gave."""
        fanout: dict[int, dict[tuple[int, int], float]] = {}
        for query, pattern, index, rows in state["fanout"]:
            fanout.setdefault(query, {})[pattern, index] = rows
        self.statistics = Statistics(fanout, state["hubs"])
        self._due_at, self._seen = state["due_at"], state["seen"]
        self._walked = int(self._seen[WALKED])

    def renumber(self, queries: Sequence[int]) -> None:
        """Numbers queries anew: the new number of each is its place among these."""
        fanout = {place: self.statistics.of(number) for place, number in enumerate(queries)}
        self.statistics = replace(self.statistics, fanout=fanout)

    def _measure(
        self, matcher: Matcher, queries: Sequence[Query], epochs: Sequence[int], intern: Interner, now: int
    ) -> Statistics:
        samples = [matcher.stores.live_rows(store, _SAMPLE) for store in range(len(matcher.stores))]
        samples = [sample[sample[:, ROW_TO] > now] for sample in samples]
        stores = matcher.program.stores
        fanout = {number: dict(self.statistics.of(number)) for number in range(len(queries))}
        hubs = self.statistics.hubs
        for number, query in enumerate(queries):
            for pattern, index in _probes(query, self.statistics, number):
                source = query.sources[query.patterns[pattern].source]
                store = stores.index(store_key(source, epochs[number]))
                keys = _fitting(samples[store], query.patterns[pattern], intern)
                if index == SPO or not len(keys):
                    continue
                keys = keys[:: max(1, len(keys) // _KEYS)]
                s, p, o = (np.ascontiguousarray(keys[:, column]) for column in (ROW_S, ROW_P, ROW_O))
                reach = float(mean_chain_length(matcher.stores.descriptors, store, index, s, p, o, _MOST))
                fanout[number][pattern, index] = reach
                hubs = hubs or (reach > _HUB and len(query.patterns) > 2)
        return Statistics(fanout, hubs)


def _fitting(rows: Ints, pattern: Pattern, intern: Interner) -> Ints:
    for column, term in zip((ROW_S, ROW_P, ROW_O), pattern.terms, strict=True):
        if isinstance(term, Const) and len(rows):
            rows = rows[rows[:, column] == intern(term.text.encode())]
    return rows


def _probes(query: Query, statistics: Statistics, number: int) -> set[tuple[int, int]]:
    """The (pattern, index) pairs that the plans of a query use, whose indexes are therefore complete."""
    return {
        (step.pattern, step.index)
        for part in _parts(query)
        for steps in plan_component(
            query.patterns, part, statistics.of(number), free=statistics.hubs
        ).nodes.values()
        for step in steps
    }


def _orders(query: Query, statistics: Statistics, number: int) -> list[list[int]]:
    """The orders that are tried first."""
    orders = []
    for part in _parts(query):
        graph = plan_component(query.patterns, part, statistics.of(number), free=statistics.hubs)
        orders += [[step.pattern for step in graph.order(start)] for start in part]
    return orders


def _parts(query: Query) -> list[tuple[int, ...]]:
    """The connected parts of the leaves of a query, each once."""
    return list(dict.fromkeys(unit.part for unit in units_of(0, query)))
