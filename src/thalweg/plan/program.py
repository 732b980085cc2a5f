"""Programs: the delta plans of all queries of a streamset as the arrays that the match kernel interprets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query, Source
from thalweg.algebra.terms import Const
from thalweg.algebra.windows import Arrivals, Count, Entailed, Range, Static, Window
from thalweg.kernels.dispatch import signature_key
from thalweg.kernels.layout import (
    BASE_SLOT,
    BIND,
    BOUND,
    CONSTANT,
    DISPATCH_CELLS,
    ENTRY_CELLS,
    KNOWN_CELLS,
    NODE_CELLS,
    NODE_MEMBERS,
    PREDICATE,
    STEP_CELLS,
)
from thalweg.kernels.parameter_table import enter_parameters
from thalweg.kernels.store import ALL
from thalweg.plan.compile import plan_of
from thalweg.plan.delta import Fanout, PlanGraph, components, plan_component
from thalweg.plan.shapes import FEW_QUERIES, Shape, Unit, shapes_of
from thalweg.schema.network import Terms

Ints = NDArray[np.int64]
Interner = Callable[[bytes], int]
StoreKey = tuple[tuple[str, ...], Window, int, tuple[str, ...]]
"""Streams, window, epoch and static graphs; without streams, it is the store of those graphs."""
_Signature = tuple[int, int, tuple[int, ...]]  # store, mask of constant positions, their ids


@dataclass(frozen=True)
class _Entry:
    """A pattern as the start of a delta plan: the kernel's cells, and the signatures of the other patterns."""

    pattern: int
    node: int
    terms: list[int]
    others: list[_Signature]


@dataclass(frozen=True)
class Statistics:
    """Statistics of the data: rows that probes find, by query, and whether some keys have very many (hubs)."""

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
    parameters: Ints
    known: Ints
    values: Ints
    members: Ints
    fan: int
    """The most units that one solution belongs to."""
    width: int
    """The most variables that a unit shows."""
    variables: int
    depth: int
    constants: Ints
    bases: tuple[int, ...]
    """By store, the store of the static data that it is one set with, or -1."""
    shared: int
    """The most units that share a plan."""
    needs: Mapping[_Signature, int] = field(default_factory=dict)
    """By signature of a pattern, the indexes that triples which fit it have to be in."""


def store_key(source: Source, epoch: int = 0) -> StoreKey:
    """What makes two sources share a store: the same streams under a window of the same content.

    A window by count begins to count when its query is registered, so that it has the `epoch` of its query: queries
    between which rows came have different ones. So do arrivals, and windows that are closed under a schema.
    """
    window = source.window
    streams = tuple(sorted(source.streams))
    if isinstance(window, Count | Arrivals | Entailed):
        return (streams, window.content, epoch, source.graphs)
    return (streams, window.content if isinstance(window, Range) else window, 0, source.graphs)


def base_of(key: StoreKey, static: Collection[str]) -> StoreKey | None:
    """The key of the static data that a store of streams is one set with, where there are `static` graphs of it."""
    streams, window, _, graphs = key
    if not streams or set(graphs).isdisjoint(static):
        return None
    return ((), Static(window.schema if isinstance(window, Entailed) else None), 0, graphs)


def is_static(key: StoreKey) -> bool:
    """Whether a store holds static data."""
    return not key[0]


def has_feed(key: StoreKey) -> bool:
    """Whether a store has a feed of its own, made of rows of its streams: windows by count, arrivals,
    and windows that are closed under a schema.
    """
    return isinstance(key[1], Count | Arrivals | Entailed)


def static_stores(keys: Sequence[StoreKey]) -> list[int]:
    """The stores of static data. In a program each has two feeds, behind the others: of its own rows, and of rows that
    hide or show triples in the stores that it is the base of.
    """
    return [k for k, key in enumerate(keys) if is_static(key)]


def fed_stores(keys: Sequence[StoreKey]) -> list[int]:
    """The stores with feeds of their own; in a program, these follow the feeds of the streams."""
    return [k for k, key in enumerate(keys) if has_feed(key)]


def patterns_of(queries: Iterable[tuple[Query, int]], key: StoreKey) -> tuple[Terms, ...]:
    """The constants of the patterns of queries (with their epochs) that read a store; None is a variable."""
    found = (
        pattern.constants
        for query, epoch in queries
        for pattern in query.patterns
        if store_key(query.sources[pattern.source], epoch) == key
    )
    return tuple(dict.fromkeys(found))


def wanted_predicates(queries: Iterable[tuple[Query, int]], key: StoreKey, intern: Interner) -> Ints | None:
    """The predicates of the patterns of queries (with their epochs) that read a store; None: one takes any."""
    terms = {
        pattern.p
        for query, epoch in queries
        for pattern in query.patterns
        for own in [store_key(query.sources[pattern.source], epoch)]
        if own == key or base_of(own, own[3]) == key
    }
    if not all(isinstance(term, Const) for term in terms):
        return None
    return np.array(sorted(intern(term.text.encode()) for term in terms if isinstance(term, Const)), np.int64)


def compile_program(
    streams: Sequence[str],
    queries: Sequence[Query],
    intern: Interner,
    gone: Collection[int] = (),
    statistics: Statistics | None = None,
    epochs: Sequence[int] = (),
    stores: Sequence[StoreKey] = (),
    static: Collection[str] = (),
) -> Program:
    """Lays out the plans of `queries`, which have `epochs` (0 if not given); constants become ids by `intern`.

    `stores` are those that there are anyway, which come first. `static` are the static graphs that there are.

    The numbers of queries that are `gone` keep their place and their stores, but nothing is matched for them.
    `statistics` are the measured fan-outs of the data.
    """
    statistics = statistics or Statistics()
    epochs = epochs or [0] * len(queries)
    read = [
        [store_key(source, epoch) for source in query.sources]
        for query, epoch in zip(queries, epochs, strict=True)
    ]
    needed = dict.fromkeys([*stores, *(key for own in read for key in own)])
    needed |= dict.fromkeys(base for key in needed if (base := base_of(key, static)) is not None)
    keys = tuple(needed)
    places = {key: place for place, key in enumerate(keys)}
    units = tuple(unit for number, query in enumerate(queries) for unit in units_of(number, query))
    stored = [
        [places[own[p.source]] for p in query.patterns] for query, own in zip(queries, read, strict=True)
    ]
    # A shared plan walks rows of any constant: beside a hub, each unit is better off by itself.
    shapes = shapes_of(units, queries, stored, share=len(queries) > FEW_QUERIES and not statistics.hubs)
    bases = tuple(-1 if (base := base_of(key, static)) is None else places[base] for key in keys)
    layout = _Layout(units, queries, stored, intern, bases)
    for shape in shapes:
        layout.add(shape, statistics, [unit for unit in shape.units if units[unit].query not in gone])
    entries, dispatch, wild, others = layout.dispatch()
    fed = fed_stores(keys)
    feeds = [[k for k, key in enumerate(keys) if stream in key[0] and k not in fed] for stream in streams]
    masks = [[k for k, base in enumerate(bases) if base == store] for store in static_stores(keys)]
    masked = [
        feed for store, mask in zip(static_stores(keys), masks, strict=True) for feed in ([store], mask)
    ]
    known, values = layout.known_values()
    return Program(
        streams=tuple(streams),
        stores=keys,
        indexes=tuple(layout.indexes),
        units=units,
        bases=bases,
        feeds=_padded([*feeds, *([k] for k in fed), *masked]),
        wild=wild,
        dispatch=dispatch,
        entries=entries,
        nodes=_table(layout.nodes, NODE_CELLS),
        steps=_table(layout.steps, STEP_CELLS),
        others=others,
        outputs=_padded(layout.outputs),
        parameters=np.array(layout.parameters or [-1], np.int64),
        known=known,
        values=values,
        members=np.array(layout.members or [-1], np.int64),
        fan=layout.fan,
        width=max((len(unit.shown) for unit in units), default=0),
        variables=max((len(shape.variables) + len(shape.parameters) for shape in shapes), default=0),
        depth=max((len(query.patterns) for query in queries), default=1),
        constants=np.array(sorted(layout.constants), np.int64),
        shared=max((len(shape.units) for shape in shapes), default=1),
        needs={signature: layout.needs.get(signature, 1) for signature in layout.signatures},
    )


def units_of(number: int, query: Query) -> list[Unit]:
    """The connected parts of the leaves of a query's plan."""
    units = []
    for place, leaf in enumerate(plan_of(query).leaves):
        for part in components(query, leaf.patterns):
            bound = {name for pattern in part for name in query.patterns[pattern].variables}
            shown = tuple(name for name in leaf.shown if name in bound)
            units.append(Unit(number, part, shown, place))
    return units


class _Layout:
    """The arrays of a program while they are being filled."""

    def __init__(
        self,
        units: Sequence[Unit],
        queries: Sequence[Query],
        stores: Sequence[Sequence[int]],
        intern: Interner,
        bases: Sequence[int],
    ) -> None:
        self.units = units
        self.queries = queries
        self.stores = stores
        self.intern = intern
        self.bases = bases
        self.indexes = [1] * len(bases)
        self.nodes: list[list[int]] = []
        self.steps: list[list[int]] = []
        self.outputs: list[list[int]] = [[] for _ in units]
        self.parameters: list[int] = []
        self.members: list[int] = []
        self.fan = 1
        self.constants: set[int] = set()
        # By signature: entries, and the indexes that such triples need.
        self.signatures: dict[_Signature, list[_Entry]] = {}
        self.needs: dict[_Signature, int] = {}
        # By node: the values that parameters may have there, and the members that have them.
        self.known: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}
        self._ids: dict[Const, int] = {}

    def add(self, shape: Shape, statistics: Statistics, live: Collection[int]) -> None:
        """Lays out the plan of a shape for its live units; the plan itself is that of all."""
        part = shape.parts[0]
        first = self.units[shape.units[0]].query
        graph = plan_component(
            shape.patterns, part, statistics.of(first), free=statistics.hubs, parameters=shape.parameters
        )
        places = {name: place for place, name in enumerate((*shape.variables, *shape.parameters))}
        for unit, own in zip(shape.units, shape.places, strict=True):
            self.outputs[unit] = [own[name] for name in self.units[unit].shown]
        wanted: dict[int, set[_Signature]] = {
            number: {
                self._signature(unit, members[rank])
                for unit, members in zip(shape.units, shape.parts, strict=True)
                if unit in live
            }
            for rank, number in enumerate(part)
        }
        nodes = self._lay_out(graph, shape, places, self.stores[first], wanted)
        self._enter_parameters(graph, shape, nodes, places, live)
        for start in part:
            others = [
                next(iter(wanted[other])) for other in part if other != start and len(wanted[other]) == 1
            ]
            entry = _Entry(
                start, nodes[frozenset((start,))], self._terms(shape, start, places, set()), others
            )
            for signature in wanted[start]:
                for read in self._with_base(signature):
                    self.signatures.setdefault(read, []).append(entry)

    def _with_base(self, signature: _Signature) -> list[_Signature]:
        """A signature, and the same of the static data that its store is one set with."""
        base = self.bases[signature[0]]
        return [signature] if base < 0 else [signature, (base, *signature[1:])]

    def _lay_out(
        self,
        graph: PlanGraph,
        shape: Shape,
        places: dict[str, int],
        stores: Sequence[int],
        wanted: dict[int, set[_Signature]],
    ) -> dict[frozenset[int], int]:
        """Writes the nodes of a plan graph and their steps; answers the numbers of the nodes."""
        first = len(self.nodes)
        numbers = {node: first + k for k, node in enumerate(graph.nodes)}
        for node, steps in graph.nodes.items():
            bound = _bound(shape, node)
            named = [places[name] for name in shape.parameters if name in bound]
            self.nodes.append([len(self.steps), len(steps), len(self.parameters) if named else -1, 0, 0])
            if named:
                self.parameters += [*named, -1]
            for step in steps:
                store = stores[step.pattern]
                checks = not bound.issuperset(_bound(shape, [step.pattern]).intersection(shape.parameters))
                cells = self._terms(shape, step.pattern, places, set(bound))
                self.steps.append([store, step.index, step.pattern, numbers[step.node], int(checks), *cells])
                if step.index != ALL:
                    self.indexes[store] |= 1 << step.index
                    if self.bases[store] >= 0:
                        self.indexes[self.bases[store]] |= 1 << step.index
                    for signature in wanted[step.pattern]:
                        for own in self._with_base(signature):
                            self.needs[own] = self.needs.get(own, 1) | 1 << step.index
        return numbers

    def _enter_parameters(
        self,
        graph: PlanGraph,
        shape: Shape,
        nodes: dict[frozenset[int], int],
        places: dict[str, int],
        live: Collection[int],
    ) -> None:
        """Enters for each node the values that its parameters may have, and for solutions the units that have them."""
        for node, number in nodes.items():
            bound = _bound(shape, node)
            named = [k for k, name in enumerate(shape.parameters) if name in bound]
            owners: dict[tuple[int, ...], list[int]] = {}
            for unit, values in zip(shape.units, shape.values, strict=True):
                if unit in live:
                    owners.setdefault(tuple(self._id(values[k]) for k in named), []).append(unit)
            for ids, units in owners.items():
                found = (0, 0)
                if not graph.nodes[node]:
                    found = (len(self.members), len(units))
                    self.members += units
                    self.fan = max(self.fan, len(units))
                if named:
                    self.known[number, ids] = found
                else:
                    self.nodes[number][NODE_MEMBERS:] = found

    def known_values(self) -> tuple[Ints, Ints]:
        """The hash table of the values that parameters may have at nodes, and the values themselves."""
        size = 8
        while size < 2 * len(self.known):
            size *= 2
        table = np.zeros((size, KNOWN_CELLS), np.int64)
        values = np.array([id for _, ids in self.known for id in ids] or [0], np.int64)
        rows = _table(
            [[number, len(ids), *found] for (number, ids), found in self.known.items()], KNOWN_CELLS
        )
        enter_parameters(rows[: len(self.known)], values, table)
        return table, values

    def _signature(self, unit: int, pattern: int) -> _Signature:
        number = self.units[unit].query
        terms = self.queries[number].patterns[pattern].terms
        mask = sum(1 << k for k, term in enumerate(terms) if isinstance(term, Const))
        ids = tuple(self._id(term) if isinstance(term, Const) else 0 for term in terms)
        return (self.stores[number][pattern], mask, ids)

    def _terms(self, shape: Shape, pattern: int, places: dict[str, int], bound: set[str]) -> list[int]:
        cells: list[int] = []
        for term in shape.patterns[pattern].terms:
            if isinstance(term, Const):
                cells += [CONSTANT, self._id(term)]
            elif term.name in bound:
                cells += [BOUND, places[term.name]]
            else:
                bound.add(term.name)
                cells += [BIND, places[term.name]]
        return cells

    def _id(self, term: Const) -> int:
        number = self._ids.get(term)
        if number is None:
            number = self._ids[term] = self.intern(term.text.encode())
            self.constants.add(number)
        return number

    def dispatch(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Entries by signature, the hash table that finds them, masks without a predicate, others of entries."""
        entries: list[_Entry] = []
        wild = np.zeros(max(len(self.indexes), 1), np.int64)
        by_key: dict[int, list[_Signature]] = {}
        masks: dict[int, int] = {}
        for signature in self.signatures:
            store, mask, terms = signature
            by_key.setdefault(int(signature_key(store, mask, *terms)), []).append(signature)
            if mask & PREDICATE:
                predicate = int(signature_key(store, PREDICATE, *terms))
                masks[predicate] = masks.get(predicate, 0) | 1 << mask
                by_key.setdefault(predicate, [])
            else:
                wild[store] |= 1 << mask
        size = 8
        while size < 3 * len(by_key):
            size *= 2
        table = np.zeros((size, DISPATCH_CELLS), np.int64)
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
            rows.append([entry.pattern, entry.node, len(others), *entry.terms])
            others += [*dict.fromkeys(self._other(signature, slots) for signature in entry.others), -1]
        return _table(rows, ENTRY_CELLS), table, wild, np.array(others or [-1], np.int64)

    def _other(self, signature: _Signature, slots: Mapping[int, int]) -> int:
        """The cell of another pattern of an entry."""
        own = [
            slots[int(signature_key(store, mask, *terms))]
            for store, mask, terms in self._with_base(signature)
        ]
        return slot_pair(own[0], own[1] if len(own) > 1 else -1)


def slot_pair(slot: int, base: int) -> int:
    """A pattern of the list of an entry's others: the slot of its signature, and that of its static data, or -1."""
    return slot | (base + 1) << BASE_SLOT


def _bound(shape: Shape, patterns: Collection[int]) -> set[str]:
    """The variables and parameters that some patterns bind."""
    return {name for number in patterns for name in shape.patterns[number].variables}


def _table(rows: list[list[int]], cells: int) -> Ints:
    return np.array(rows, np.int64).reshape(len(rows), cells) if rows else np.zeros((1, cells), np.int64)


def _padded(rows: list[list[int]]) -> Ints:
    """Rows of differing length as one array, each ended by -1."""
    width = max((len(row) for row in rows), default=0) + 1
    table = np.full((max(len(rows), 1), width), -1, np.int64)
    for k, row in enumerate(rows):
        table[k, : len(row)] = row
    return table
