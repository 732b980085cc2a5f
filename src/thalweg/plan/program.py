"""Programs: the delta plans of all queries of a streamset as the arrays that the match kernel interprets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.nodes import Const, Query, Source, Term
from thalweg.algebra.windows import Count, Range, Window
from thalweg.kernels import match as kernel
from thalweg.kernels.store import ALL
from thalweg.plan.delta import Fanout, PlanGraph, Step, components, plan_component

Ints = NDArray[np.int64]
Interner = Callable[[bytes], int]
StoreKey = tuple[tuple[str, ...], Window]
_Signature = tuple[int, int, tuple[int, ...]]  # store, mask of constant positions, their ids


@dataclass(frozen=True)
class _Entry:
    """A pattern as the start of a delta plan: the kernel's cells, and the signatures of the other patterns."""

    unit: int
    pattern: int
    node: int
    terms: list[int]
    others: list[_Signature]


@dataclass(frozen=True)
class Unit:
    """What the kernel takes for a query: a connected part of one, with the variables that it shows."""

    query: int
    part: tuple[int, ...]
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Habits:
    """What has been learnt of the data: rows that probes find, by query, and whether some keys have very many."""

    fanout: Mapping[int, Fanout] = field(default_factory=dict)
    hubs: bool = False

    def of(self, query: int) -> Fanout:
        """What was measured for one query."""
        return self.fanout.get(query, {})


@dataclass(frozen=True)
class Program:
    """Everything about the queries that does not change while a stream flows."""

    streams: tuple[str, ...]
    stores: tuple[StoreKey, ...]
    indexes: tuple[int, ...]
    units: tuple[Unit, ...]
    feeds: Ints
    wild: Ints
    dispatch: Ints
    entries: Ints
    nodes: Ints
    steps: Ints
    others: Ints
    outputs: Ints
    variables: int
    depth: int
    constants: Ints


def store_key(source: Source) -> StoreKey:
    """What makes two sources share a store: the same streams under a window of the same content."""
    window = source.window
    return (tuple(sorted(source.streams)), window.content if isinstance(window, Range | Count) else window)


def counted_stores(keys: Sequence[StoreKey]) -> list[int]:
    """The stores of windows by count; in a program, their feeds follow those of the streams."""
    return [k for k, (_, window) in enumerate(keys) if isinstance(window, Count)]


def wanted_predicates(queries: Sequence[Query], key: StoreKey, intern: Interner) -> Ints | None:
    """The predicates of the patterns that read a store, or None where one of them takes any."""
    terms = {
        pattern.p
        for query in queries
        for pattern in query.patterns
        if store_key(query.sources[pattern.source]) == key
    }
    if not all(isinstance(term, Const) for term in terms):
        return None
    return np.array(sorted(intern(term.text.encode()) for term in terms if isinstance(term, Const)), np.int64)


def compile_program(
    streams: Sequence[str],
    queries: Sequence[Query],
    intern: Interner,
    gone: Collection[int] = (),
    habits: Habits | None = None,
) -> Program:
    """Lays out the plans of `queries`; constants become ids by `intern`.

    The numbers of queries that are `gone` keep their place and their stores, but nothing is matched for them.
    `habits` are what has been learnt of the data.
    """
    keys = tuple(dict.fromkeys(store_key(source) for query in queries for source in query.sources))
    units = tuple(unit for number, query in enumerate(queries) for unit in units_of(number, query))
    layout = _Layout(keys, intern, habits or Habits())
    for number, unit in enumerate(units):
        if unit.query not in gone:
            layout.add(number, unit, queries[unit.query])
    entries, dispatch, wild, others = layout.dispatch()
    counted = counted_stores(keys)
    feeds = [
        [k for k, (read, _) in enumerate(keys) if stream in read and k not in counted] for stream in streams
    ]
    return Program(
        streams=tuple(streams),
        stores=keys,
        indexes=tuple(layout.indexes),
        units=units,
        feeds=_padded([*feeds, *([k] for k in counted)]),
        wild=wild,
        dispatch=dispatch,
        entries=entries,
        nodes=_table(layout.nodes, kernel.NODE_CELLS),
        steps=_table(layout.steps, kernel.STEP_CELLS),
        others=others,
        outputs=_padded([[queries[u.query].variables.index(name) for name in u.shown] for u in units]),
        variables=max((len(query.variables) for query in queries), default=0),
        depth=max((len(query.patterns) for query in queries), default=1),
        constants=np.array(sorted(layout.constants), np.int64),
    )


def units_of(number: int, query: Query) -> list[Unit]:
    """The connected parts of a query."""
    shown = shown_variables(query)
    units = []
    for part in components(query):
        bound = {name for pattern in part for name in query.patterns[pattern].variables}
        units.append(Unit(number, part, tuple(name for name in shown if name in bound)))
    return units


def shown_variables(query: Query) -> tuple[str, ...]:
    """The projected variables that patterns bind: the columns of a solution."""
    bound = set(query.variables)
    return tuple(name for name in query.select if name in bound)


class _Layout:
    """The arrays of a program while they are being filled."""

    def __init__(self, keys: tuple[StoreKey, ...], intern: Interner, habits: Habits) -> None:
        self.keys = keys
        self.habits = habits
        self.intern = intern
        self.indexes = [1] * len(keys)
        self.nodes: list[list[int]] = []
        self.steps: list[list[int]] = []
        self.constants: set[int] = set()
        # By signature: entries, and the indexes that such triples need.
        self.signatures: dict[_Signature, list[_Entry]] = {}
        self.needs: dict[_Signature, int] = {}

    def add(self, number: int, unit: Unit, query: Query) -> None:
        places = {name: place for place, name in enumerate(query.variables)}
        stores = [self.keys.index(store_key(query.sources[pattern.source])) for pattern in query.patterns]
        graph = plan_component(query, unit.part, self.habits.of(unit.query), free=self.habits.hubs)
        nodes = self._lay_out(graph, query, places, stores)
        for start in unit.part:
            signature = self._signature(query, start, stores)
            others = [self._signature(query, other, stores) for other in unit.part if other != start]
            terms = self._terms(query.patterns[start].terms, places, set())
            entry = _Entry(number, start, nodes[frozenset((start,))], terms, others)
            self.signatures.setdefault(signature, []).append(entry)

    def _lay_out(
        self, graph: PlanGraph, query: Query, places: dict[str, int], stores: list[int]
    ) -> dict[frozenset[int], int]:
        """Writes the nodes of a plan graph and their steps; answers the numbers of the nodes."""
        first = len(self.nodes)
        numbers = {node: first + k for k, node in enumerate(graph.nodes)}
        for node, steps in graph.nodes.items():
            self.nodes.append([len(self.steps), len(steps)])
            bound = {name for pattern in node for name in query.patterns[pattern].variables}
            for step in steps:
                cells = self._terms(query.patterns[step.pattern].terms, places, set(bound))
                store = stores[step.pattern]
                self.steps.append([store, step.index, step.pattern, numbers[step.node], *cells])
                self._need_index(step, store, self._signature(query, step.pattern, stores))
        return numbers

    def _need_index(self, step: Step, store: int, signature: _Signature) -> None:
        if step.index != ALL:
            self.needs[signature] = self.needs.get(signature, 1) | 1 << step.index
            self.indexes[store] |= 1 << step.index

    def _signature(self, query: Query, pattern: int, stores: list[int]) -> _Signature:
        terms = query.patterns[pattern].terms
        mask = sum(1 << k for k, term in enumerate(terms) if isinstance(term, Const))
        return (stores[pattern], mask, tuple(self._id(t) if isinstance(t, Const) else 0 for t in terms))

    def _terms(self, terms: tuple[Term, ...], places: dict[str, int], bound: set[str]) -> list[int]:
        cells: list[int] = []
        for term in terms:
            if isinstance(term, Const):
                cells += [kernel.CONSTANT, self._id(term)]
            elif term.name in bound:
                cells += [kernel.BOUND, places[term.name]]
            else:
                bound.add(term.name)
                cells += [kernel.BIND, places[term.name]]
        return cells

    def _id(self, term: Const) -> int:
        number = self.intern(term.text.encode())
        self.constants.add(number)
        return number

    def dispatch(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Entries by signature, the hash table that finds them, masks without a predicate, others of entries."""
        entries: list[_Entry] = []
        wild = np.zeros(max(len(self.keys), 1), np.int64)
        by_key: dict[int, list[_Signature]] = {}
        masks: dict[int, int] = {}
        for signature in self.signatures:
            store, mask, terms = signature
            by_key.setdefault(int(kernel.signature_key(store, mask, *terms)), []).append(signature)
            if mask & kernel.PREDICATE:
                predicate = int(kernel.signature_key(store, kernel.PREDICATE, *terms))
                masks[predicate] = masks.get(predicate, 0) | 1 << mask
                by_key.setdefault(predicate, [])
            else:
                wild[store] |= 1 << mask
        size = 8
        while size < 3 * len(by_key):
            size *= 2
        table = np.zeros((size, kernel.DISPATCH_CELLS), np.int64)
        slots: dict[int, int] = {}
        for key, signatures in by_key.items():
            first = len(entries)
            needs = 1
            for signature in signatures:
                entries += self.signatures[signature]
                needs |= self.needs.get(signature, 1)
            slot = (key >> 1) & (size - 1)
            while table[slot, 0]:
                slot = (slot + 1) & (size - 1)
            table[slot] = [key, first, len(entries) - first, needs, masks.get(key, 0)]
            slots[key] = slot
        others: list[int] = []
        rows: list[list[int]] = []
        for entry in entries:
            rows.append([entry.unit, entry.pattern, entry.node, len(others), *entry.terms])
            keys = (int(kernel.signature_key(store, mask, *terms)) for store, mask, terms in entry.others)
            others += [*dict.fromkeys(slots[key] for key in keys), -1]
        return _table(rows, kernel.ENTRY_CELLS), table, wild, np.array(others or [-1], np.int64)


def _table(rows: list[list[int]], cells: int) -> Ints:
    return np.array(rows, np.int64).reshape(len(rows), cells) if rows else np.zeros((1, cells), np.int64)


def _padded(rows: list[list[int]]) -> Ints:
    """Rows of differing length as one array, each ended by -1."""
    width = max((len(row) for row in rows), default=0) + 1
    table = np.full((max(len(rows), 1), width), -1, np.int64)
    for k, row in enumerate(rows):
        table[k, : len(row)] = row
    return table
