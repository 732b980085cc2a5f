"""Static data as a feed: rows that begin with the first instant of queries, and changes at the instants of loads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.windows import Static
from thalweg.kernels.layout import (
    OUT_BINDINGS,
    OUT_EVENT,
    OUT_FROM,
    OUT_GRAPH,
    OUT_TO,
    OUT_UNIT,
    OUT_WEIGHT,
)
from thalweg.kernels.store import DELETE, HIDE, INSERT, SHOW
from thalweg.operators.feeds import GENERATION
from thalweg.operators.spans import Changes, Spans
from thalweg.operators.state import State
from thalweg.operators.views import View
from thalweg.plan.program import Program, fed_stores, static_stores
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import Rows
from thalweg.rdf.prune import Signature
from thalweg.schema.expansion import Expansion
from thalweg.schema.network import Network
from thalweg.static.data import StaticData, difference, distinct

Ints = NDArray[np.int64]


class StaticFeed:
    """What a streamset has of static data, and what is still to come to its stores."""

    def __init__(self, data: StaticData, arena: Arena) -> None:
        self.data = data
        self._arena = arena

    def rows(
        self, program: Program, holds: Callable[[int], Ints] | None, at: int, generation: int
    ) -> tuple[Ints, Rows]:
        """The rows that make the stores of static data hold what there is now, from an instant on.

        These are the changes to what a store `holds`. Without that, everything is inserted: queries have come that have
        none of it.
        """
        feeds: list[Ints] = []
        parts: list[Ints] = []
        first = len(program.streams) + len(fed_stores(program.stores))
        for place, store in enumerate(static_stores(program.stores)):
            now = self._content(program, store)
            before = np.empty((0, 3), np.int64) if holds is None else holds(store)
            own, mask = first + 2 * place, first + 2 * place + 1
            come, gone = difference(now, before), difference(before, now)
            for feed, op, triples in (
                (own, DELETE, gone),
                (mask, SHOW, gone),
                (mask, HIDE, come),
                (own, INSERT, come),
            ):
                if len(triples):
                    feeds.append(np.full(len(triples), feed | generation << GENERATION, np.int64))
                    parts.append(np.column_stack([triples, np.full(len(triples), op, np.int64)]))
        if not parts:
            return np.empty(0, np.int64), Rows.empty()
        s, p, o, op = np.concatenate(parts).T.copy()
        none = np.zeros(len(s), np.int64)
        return np.concatenate(feeds), Rows(none + at, none, none, s, p, o, op)

    def _content(self, program: Program, store: int) -> Ints:
        """What a store of static data has to hold: the triples that patterns can see, closed under its schema."""
        _, window, _, graphs = program.stores[store]
        signatures = self._signatures(program, store)
        if not isinstance(window, Static) or window.schema is None:
            return self.data.select(graphs, signatures, self._arena)
        network = Network(
            window.schema,
            tuple((_decoded(one.s), _decoded(one.p), _decoded(one.o)) for one in signatures),
        )
        read = [*signatures, *(Signature(*map(_encoded, terms)) for terms in network.wanted())]
        rows = self.data.select(graphs, read, self._arena, whole=True)
        # As in a closed window: chains of transitive properties are paths over these rows and those of the window.
        closed = np.column_stack(Expansion(network, self._arena).derive(*rows.T.copy())[1:])
        fits = np.zeros(len(closed), np.bool_)
        for _, ids in self._needs(program, store):
            fits |= np.all([closed[:, k] == id for k, id in enumerate(ids) if id] or [fits | True], axis=0)
        closed = distinct(closed[fits])
        return closed[self.data.kept(graphs, self._arena, closed)]

    @staticmethod
    def _needs(program: Program, store: int) -> list[tuple[int, tuple[int, ...]]]:
        """The signatures of the patterns that read a store: which positions are constant, and their ids."""
        return [(mask, ids) for own, mask, ids in program.needs if own == store]

    def _signatures(self, program: Program, store: int) -> list[Signature]:
        """What the patterns that read a store ask for."""
        found = self._needs(program, store)
        texts = iter(self._arena.texts([id for _, ids in found for id in ids if id]))
        return [
            Signature(
                *(next(texts).encode() if id else None for id in ids)
            )  # a constant has an id that is not 0
            for _, ids in found
        ]


def _decoded(text: bytes | None) -> str | None:
    return None if text is None else text.decode()


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


Key = tuple[View, int, tuple[int, ...]]
"""A unit of a query, whatever its number in a program: the view, the leaf and the patterns."""


class StaticSolutions:
    """The solutions that static data alone give to [NOW] queries: each event has them, for it is asked with them."""

    def __init__(self) -> None:
        self._held: dict[Key, tuple[Ints, Ints]] = {}  # weights and bindings
        self._last: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, key: Key, spans: Spans, width: int) -> None:
        """Takes solutions of a unit, which shows so many variables, that have come, or gone."""
        none = np.empty(0, np.int64), np.empty((0, width), np.int64)
        weights, rows = self._held.pop(key, none)
        weights = np.concatenate([weights, spans.weight])
        rows = np.concatenate([rows, spans.bindings[:, :width]])
        netted = Changes(np.zeros(len(rows), np.int64), weights, rows).consolidated()
        if len(netted):
            self._held[key] = netted.weight, netted.rows

    def forget(self, view: View) -> None:
        """Releases the solutions of a query."""
        self._held = {key: held for key, held in self._held.items() if key[0] is not view}

    def events_of(self, rows: Rows) -> Ints:
        """The events of some rows, markers included, in their order: number, time and graph of each."""
        table = np.column_stack([rows.event, rows.time, rows.graph])[rows.op == INSERT]
        new = np.ones(len(table), np.bool_)
        new[1:] = (table[1:, :2] != table[:-1, :2]).any(axis=1)
        if len(table) and self._last == (table[0, 0], table[0, 1]):
            new[0] = False  # it has come in parts
        if len(table):
            self._last = int(table[-1, 0]), int(table[-1, 1])
        return table[new]

    def spans(self, events: Ints, units: Sequence[tuple[int, Key]], width: int) -> Ints:
        """The solutions of each of some events, as cells of spans with so many bindings."""
        parts = [np.empty((0, OUT_BINDINGS + width), np.int64)]
        for unit, key in units:
            if key not in self._held:
                continue
            weights, rows = self._held[key]
            rows = np.repeat(rows, weights, axis=0)
            cells = np.zeros((len(events), len(rows), OUT_BINDINGS + width), np.int64)
            cells[:, :, OUT_UNIT], cells[:, :, OUT_WEIGHT] = unit, 1
            cells[:, :, OUT_EVENT] = events[:, None, 0]
            cells[:, :, OUT_FROM], cells[:, :, OUT_TO] = events[:, None, 1], events[:, None, 1] + 1
            cells[:, :, OUT_GRAPH] = events[:, None, 2]
            cells[:, :, OUT_BINDINGS : OUT_BINDINGS + rows.shape[1]] = rows
            parts.append(cells.reshape(-1, OUT_BINDINGS + width))
        return np.concatenate(parts)

    def keep(
        self, found: Iterable[Spans], units: Sequence[tuple[int, Key]], program: Program
    ) -> Iterator[Spans]:
        """Solutions of static data without those of [NOW] queries, which are kept for the events to come."""
        for spans in found:
            of_events = np.zeros(len(spans), np.bool_)
            for number, key in units:
                mine = spans.unit == number
                if mine.any():
                    self.add(key, spans[mine], len(program.units[number].shown))
                    of_events |= mine
            if not of_events.all():
                yield spans[~of_events] if of_events.any() else spans

    def join(
        self, found: Iterable[Spans], events: Ints, units: Sequence[tuple[int, Key]], program: Program
    ) -> Iterator[Spans]:
        """Solutions with those that static data alone give to events: both of an event come together."""
        width = max((len(unit.shown) for unit in program.units), default=0)
        for spans in found:
            places = np.flatnonzero(events[:, 0] == spans.event[-1])
            until = int(places[-1]) + 1 if len(places) else 0
            more = self.spans(events[:until], units, width)
            events = events[until:]
            yield Spans(np.concatenate([more, spans.cells[:, : more.shape[1]]])) if len(more) else spans
        if len(events) and len(more := self.spans(events, units, width)):
            yield Spans(more)

    def state(self, views: Sequence[View]) -> State:
        """The solutions; views are saved as their places among these."""
        held = [
            [next(k for k, other in enumerate(views) if other is view), leaf, list(part), weights, rows]
            for (view, leaf, part), (weights, rows) in self._held.items()
        ]
        return {"held": held, "last": self._last}

    def restore(self, state: State, views: Sequence[View]) -> None:
        """Holds what saved ones held."""
        self._held = {
            (views[place], leaf, tuple(part)): (weights, rows)
            for place, leaf, part, weights, rows in state["held"]
        }
        self._last = None if state["last"] is None else tuple(state["last"])

    def live_ids(self) -> list[Ints]:
        """The term ids of the solutions."""
        return [rows.ravel() for _, rows in self._held.values()]
