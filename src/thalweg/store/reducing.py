"""Which triples of a content a query needs: those of its patterns, less what cannot be in any solution (semi-joins).

A pattern that few triples fit gives its variables few candidates. Other patterns of a join need only triples with
these. So a question about one subject reads what is around it, whatever the content holds.

The law: `given` says of a variable that solutions which bind it to other terms do not matter to whoever uses them. It
goes down to inputs that pass such a solution on, and never to where OPTIONAL would leave the variable unbound instead.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thalweg.algebra.nodes import (
    Bgp,
    Closure,
    Exists,
    Extend,
    Group,
    Join,
    LeftJoin,
    Minus,
    Node,
    Project,
    Slice,
    Union,
    Values,
    ZeroLength,
    children,
)
from thalweg.algebra.query import DEFAULT_GRAPH, Query, Source
from thalweg.algebra.scope import scope_of
from thalweg.algebra.terms import Pattern, Var
from thalweg.rdf.arena import Ids
from thalweg.store.content import Content
from thalweg.store.runs import Places, Run, Want

Candidates = Mapping[str, Ids]
"""Of variables that all solutions bind: ascending ids, and each value that matters is among them."""

_FEW = 1 << 10
_SHARE = 32
"""Of a pattern that fits more than this part of the triples (and more than a few), no candidates are taken."""


class Reducer:
    """Finds the triples that the patterns of one query need."""

    def __init__(self, query: Query, content: Content) -> None:
        self.query, self.content = query, content
        self.names = content.names
        self.runs: list[list[Run]] = [content.runs(self._graphs(source)) for source in query.sources]
        self.total = sum(run.size for run in content.runs(self.names))
        self.found: dict[int, list[Places | slice]] = {}
        """The places that a pattern needs, by its number and run."""
        self._numbers: dict[int, list[int]] = {}

    def _graphs(self, source: Source) -> list[str]:
        """The graphs that a source is the union of."""
        return self.names if DEFAULT_GRAPH in source.graphs else list(dict.fromkeys(source.graphs))

    def rows(self) -> list[Ids]:
        """For each source the triples that some pattern of it needs, as rows of ids; one of two graphs may be twice."""
        self._number(self.query.root)
        self._reduce(self.query.root, {})
        parts: list[list[list[Places | slice]]] = [[[] for _ in runs] for runs in self.runs]
        for number, pattern in enumerate(self.query.patterns):
            places = self.found.get(number)
            if places is None:  # of a node that nobody asks
                places = self._select(pattern, {})
            for own, part in zip(parts[pattern.source], places, strict=True):
                own.append(part)
        return [
            _stacked(runs, [_union(run, own) for run, own in zip(runs, places, strict=True)])
            for runs, places in zip(self.runs, parts, strict=True)
        ]

    def _number(self, root: Node) -> None:
        """The numbers of the patterns of each node: those of `leaves`."""
        first, pending = 0, [root]
        while pending:
            node = pending.pop()
            if isinstance(node, Bgp):
                # One object may be in the tree twice: its patterns need what either place needs.
                numbers = range(first, first + len(node.patterns))
                self._numbers.setdefault(id(node), []).extend(numbers)
                first += len(node.patterns)
            pending.extend(reversed(children(node)))

    def _reduce(self, node: Node, given: Candidates) -> Candidates:
        """The candidates of what a node binds; notes what its patterns need."""
        match node:
            case Bgp():
                return self._bgp(node, given)
            case Values():
                return self._values(node)
            case Join():
                left = self._reduce(node.left, given)
                right = self._reduce(node.right, {**given, **left})
                if right.keys() - left.keys():
                    left = self._reduce(node.left, {**given, **right})
                return {**left, **right}
            case LeftJoin() | Minus() | Exists():
                left = self._reduce(node.left, given)
                certain = scope_of(node.left).certain
                seen = {name: ids for name, ids in {**given, **left}.items() if name in certain}
                self._reduce(node.right, seen)
                return left
            case Union():
                found = [self._reduce(one, given) for one in node.inputs]
                shared = set(found[0]).intersection(*found[1:])
                return {name: np.unique(np.concatenate([one[name] for one in found])) for name in shared}
            case Closure() | ZeroLength():
                self._reduce(node.input, {})
                return {}
            case Slice():
                return self._reduce(node.input, {})
            case Project() | Group():
                names = node.names if isinstance(node, Project) else node.keys
                inner = self._reduce(node.input, {name: given[name] for name in given if name in names})
                return {name: inner[name] for name in inner if name in names}
            case Extend():
                return self._reduce(node.input, {name: given[name] for name in given if name != node.name})
        return self._reduce(node.input, given)

    def _values(self, node: Values) -> Candidates:
        found = {}
        certain = scope_of(node).certain
        for name, column in zip(node.names, zip(*node.rows, strict=True), strict=False):
            if name in certain:
                ids = [self.content.id_of(cell.text) for cell in column if cell is not None]
                found[name] = np.unique(np.array([id for id in ids if id], np.int64))
        return found

    def _bgp(self, node: Bgp, given: Candidates) -> Candidates:
        numbers = self._numbers[id(node)]
        is_shared = len(numbers) > len(node.patterns)
        known = {} if is_shared else dict(given)
        left = dict(zip(numbers, node.patterns, strict=False))
        while left:
            number = min(left, key=lambda k: (self._count(left[k], known), k))
            pattern = left.pop(number)
            found = self._select(pattern, known)
            self.found[number] = found
            size = sum(_size(places) for places in found)
            if size <= max(_FEW, self.total // _SHARE):
                known.update(self._values_of(pattern, found))
        if is_shared:  # the numbers of its other places in the tree
            for place, number in enumerate(numbers):
                self.found[number] = self.found[numbers[place % len(node.patterns)]]
        return {name: ids for name, ids in known.items() if name in scope_of(node).certain}

    def _want(self, pattern: Pattern, known: Candidates) -> list[Want]:
        want: list[Want] = []
        for term in pattern.terms:
            want.append(known.get(term.name) if isinstance(term, Var) else self.content.id_of(term.text))
        return want

    def _count(self, pattern: Pattern, known: Candidates) -> int:
        want = self._want(pattern, known)
        return sum(run.count(want) for run in self.runs[pattern.source])

    def _select(self, pattern: Pattern, known: Candidates) -> list[Places | slice]:
        want = self._want(pattern, known)
        return [run.select(want) for run in self.runs[pattern.source]]

    def _values_of(self, pattern: Pattern, found: list[Places | slice]) -> Candidates:
        runs = self.runs[pattern.source]
        values = {}
        for place, term in enumerate(pattern.terms):
            if isinstance(term, Var):
                parts = [run.columns[place][places] for run, places in zip(runs, found, strict=True)]
                values[term.name] = np.unique(np.concatenate([np.empty(0, np.int64), *parts]))
        return values


def _size(places: Places | slice) -> int:
    return places.stop - places.start if isinstance(places, slice) else len(places)


def _union(run: Run, parts: list[Places | slice]) -> Places | slice:
    """The places of a run that are in some of several selections."""
    parts = [part for part in parts if _size(part)]
    if not parts:
        return slice(0, 0)
    if len(parts) == 1:
        return parts[0]
    if sum(map(_size, parts)) < len(run) // 16:
        return np.unique(np.concatenate([np.r_[part] for part in parts]))
    mask = np.zeros(len(run), np.bool_)
    for part in parts:
        mask[part] = True
    return np.flatnonzero(mask)


def _stacked(runs: list[Run], places: list[Places | slice]) -> Ids:
    rows = [
        np.stack([column[found] for column in run.columns], axis=1)
        for run, found in zip(runs, places, strict=True)
    ]
    return np.concatenate([np.empty((0, 3), np.int64), *rows])
