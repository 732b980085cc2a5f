"""Learning the habits of the data: what probes find, measured on the rows that are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.terms import Const, Pattern
from thalweg.kernels.layout import COUNTERS, FOUND, INSERTED, WALKED
from thalweg.kernels.steps import mean_reach
from thalweg.kernels.store import ROW_O, ROW_P, ROW_S, ROW_TO, SPO
from thalweg.operators.matcher import Matcher
from thalweg.operators.state import State
from thalweg.plan.delta import components, plan_component
from thalweg.plan.program import Habits, Interner, store_key
from thalweg.plan.shapes import FEW_QUERIES

Ints = NDArray[np.int64]

_SAMPLE = 4096  # rows looked at in a store
_KEYS = 48  # keys tried for each index of a pattern
_MOST = 2048  # rows counted for a key
_HUB = 1000  # rows of a key from which on other orders are worth their indexes
_FIRST_LOOK = 1 << 10
_LONGEST_WAIT = 1 << 18
_TOIL = 40  # rows walked for each row inserted that make a look worth while at once


class Learner:
    """Decides when to look at the data again, and what follows for the plans."""

    def __init__(self) -> None:
        self.habits = Habits()
        self._look_at = _FIRST_LOOK
        self._seen = np.zeros(COUNTERS, np.int64)
        self._walked = 0  # when it was last asked whether there is toil

    def is_due(self, matcher: Matcher, queries: int) -> bool:
        """Whether it is time to look: after enough rows, or at once where there is toil; asked after each batch."""
        item = matcher.counters.item
        rested = item(INSERTED) >= self._look_at
        if rested and queries <= FEW_QUERIES:
            return True
        if not rested and item(WALKED) - self._walked <= _TOIL * _FIRST_LOOK:
            return False
        self._walked = item(WALKED)
        toil = self._toils(matcher)
        if rested and not toil:
            self._begin(matcher.counters)
        return toil

    def _begin(self, counters: Ints) -> None:
        """Begins another period, over which toil is counted and after which it is time to look."""
        inserted = int(counters[INSERTED])
        period = inserted - int(self._seen[INSERTED])
        self._look_at = inserted + min(4 * period + 1, _LONGEST_WAIT)
        self._seen, self._walked = counters.copy(), int(counters[WALKED])

    def _toils(self, matcher: Matcher) -> bool:
        """Whether somebody is walking much for little."""
        done = matcher.counters - self._seen
        # Of a shared plan, walking is worth while up to what probing for each unit by itself would cost.
        bearable = max(_TOIL, matcher.program.shared) * (int(done[INSERTED]) + _FIRST_LOOK)
        return not self.habits.hubs and int(done[WALKED] - done[FOUND]) > bearable

    def look(self, matcher: Matcher, queries: Sequence[Query], intern: Interner, now: int) -> bool:
        """Measures; whether other plans are better now."""
        toil = self._toils(matcher)
        self._begin(matcher.counters)
        # What shared plans probe is not what each unit would.
        learnt = self.habits if matcher.program.shared > 1 else self._measure(matcher, queries, intern, now)
        if toil:  # that is a hub, whether the sample has met it or not
            learnt = replace(learnt, hubs=True)
        before, self.habits = self.habits, learnt
        return learnt.hubs != before.hubs or any(
            _orders(query, before, number) != _orders(query, learnt, number)
            for number, query in enumerate(queries)
        )

    def state(self) -> State:
        """What has been learnt."""
        fanout = [
            [query, pattern, index, rows]
            for query, found in self.habits.fanout.items()
            for (pattern, index), rows in found.items()
        ]
        return {"fanout": fanout, "hubs": self.habits.hubs, "look_at": self._look_at, "seen": self._seen}

    def restore(self, state: State) -> None:
        """Knows what a saved learner knew."""
        fanout: dict[int, dict[tuple[int, int], float]] = {}
        for query, pattern, index, rows in state["fanout"]:
            fanout.setdefault(query, {})[pattern, index] = rows
        self.habits = Habits(fanout, state["hubs"])
        self._look_at, self._seen = state["look_at"], state["seen"]
        self._walked = int(self._seen[WALKED])

    def _measure(self, matcher: Matcher, queries: Sequence[Query], intern: Interner, now: int) -> Habits:
        samples = [matcher.stores.live_rows(store, _SAMPLE) for store in range(len(matcher.stores))]
        samples = [sample[sample[:, ROW_TO] > now] for sample in samples]
        stores = matcher.program.stores
        fanout = {number: dict(self.habits.of(number)) for number in range(len(queries))}
        hubs = self.habits.hubs
        for number, query in enumerate(queries):
            for pattern, index in _probes(query, self.habits, number):
                store = stores.index(store_key(query.sources[query.patterns[pattern].source]))
                keys = _fitting(samples[store], query.patterns[pattern], intern)
                if index == SPO or not len(keys):
                    continue
                keys = keys[:: max(1, len(keys) // _KEYS)]
                s, p, o = (np.ascontiguousarray(keys[:, column]) for column in (ROW_S, ROW_P, ROW_O))
                reach = float(mean_reach(matcher.stores.descriptors, store, index, s, p, o, _MOST))
                fanout[number][pattern, index] = reach
                hubs = hubs or (reach > _HUB and len(query.patterns) > 2)
        return Habits(fanout, hubs)


def _fitting(rows: Ints, pattern: Pattern, intern: Interner) -> Ints:
    for column, term in zip((ROW_S, ROW_P, ROW_O), pattern.terms, strict=True):
        if isinstance(term, Const) and len(rows):
            rows = rows[rows[:, column] == intern(term.text.encode())]
    return rows


def _probes(query: Query, habits: Habits, number: int) -> set[tuple[int, int]]:
    """The (pattern, index) pairs that the plans of a query use, whose indexes are therefore complete."""
    return {
        (step.pattern, step.index)
        for part in components(query)
        for steps in plan_component(query.patterns, part, habits.of(number), free=habits.hubs).nodes.values()
        for step in steps
    }


def _orders(query: Query, habits: Habits, number: int) -> list[list[int]]:
    """The orders that are tried first."""
    orders = []
    for part in components(query):
        graph = plan_component(query.patterns, part, habits.of(number), free=habits.hubs)
        orders += [[step.pattern for step in graph.order(start)] for start in part]
    return orders
