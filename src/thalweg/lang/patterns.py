"""Triple patterns and paths: rdflib's runs of terms become basic graph patterns, joins and unions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

import rdflib
from rdflib.plugins.sparql.parserutils import CompValue

from thalweg.algebra.expressions import Call, Constant, Variable
from thalweg.algebra.nodes import (
    Bgp,
    Closure,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    Union,
    Values,
    ZeroLength,
)
from thalweg.algebra.terms import Const, Pattern, Term, Var
from thalweg.lang.grammar import AnonymousNode, PlacedVariable
from thalweg.lang.names import Prologue
from thalweg.lang.paths import (
    ALTERNATIVE,
    ELEMENT,
    INVERSE,
    NEGATED,
    PATHS,
    SEQUENCE,
    is_nullable,
    listed,
    parts_of_sequence,
    plain,
    star_of,
)
from thalweg.lang.text import QueryText

_MOST_STARS = 3
"""Parts of a sequence with `*` of which each is left out or not: more are joined with all nodes of the graph."""
Triple = tuple[Any, Any, Any, int]


class PatternReader:
    """Reads the terms, triples and paths of one query; blank nodes become variables that nothing can name."""

    def __init__(self, query: QueryText, prologue: Prologue) -> None:
        self.query = query
        self.prologue = prologue
        self._anonymous: dict[str, Var] = {}
        self._labels: dict[str, int] = {}
        self._fresh = 0
        self._bgp = 0

    def next_bgp(self) -> None:
        """Begins another basic graph pattern: a label of a blank node is used in one of them only."""
        self._bgp += 1

    def copy_of_group(self) -> Callable[[], None]:
        """To read a group several times: what this returns is to be called before each time but the first."""
        anonymous, labels, bgp = dict(self._anonymous), dict(self._labels), self._bgp

        def again() -> None:
            self._anonymous, self._labels, self._bgp = dict(anonymous), dict(labels), bgp

        return again

    def template(self, runs: Iterable[Any], start: int) -> tuple[Pattern, ...]:
        """The triples of a template; its blank nodes have nothing to do with those of the patterns."""
        self._anonymous, self._labels = {}, {}
        return tuple(
            Pattern(self.term(s, at), self._predicate(p, at), self.term(o, at), 0, *self.query.place(at))
            for s, p, o, at in _expanded(runs, start)
        )

    def triples(self, runs: Iterable[Any], source: int, start: int) -> list[Node]:
        """The nodes to join for runs of triples: one basic graph pattern, and what paths make."""
        patterns: list[Pattern] = []
        others: list[Node] = []
        for s, p, o, at in _expanded(runs, start):
            node = self._path(self.term(s, at), p, self.term(o, at), source, at)
            if isinstance(node, Bgp):
                patterns += node.patterns
            else:
                others.append(node)
        return [Bgp(tuple(patterns)), *others] if patterns else others

    def term(self, term: Any, at: int) -> Term:
        """A variable, a blank node as a variable, or a constant."""
        if isinstance(term, PlacedVariable):
            return Var(str(term))
        if isinstance(term, AnonymousNode):
            return self._anonymous.setdefault(str(term), Var(f"_:[{len(self._anonymous) + 1}]"))
        if isinstance(term, rdflib.BNode):
            if self._labels.setdefault(str(term), self._bgp) != self._bgp:
                self.query.fail(f"the blank node _:{term} is used in two groups of patterns", at)
            return Var(f"_:{term}")
        return self.prologue.constant(term, at)

    def fresh(self) -> Var:
        """A variable that nothing else uses and nothing can name."""
        self._fresh += 1
        return Var(f"_:/{self._fresh}")

    def _predicate(self, path: Any, at: int) -> Term:
        """The predicate of a template's triple."""
        step = plain(path)
        if isinstance(step, CompValue) and step.name in PATHS:
            self.query.fail("a path cannot stand in a template", at)
        return self.term(step, at)

    # Paths (SPARQL 1.1, section 18.2.2.3)

    def _path(self, s: Term, path: Any, o: Term, source: int, at: int) -> Node:
        step = plain(path)
        if not isinstance(step, CompValue) or step.name not in PATHS:
            return Bgp((Pattern(s, self.term(step, at), o, source, *self.query.place(at)),))
        if step.name == INVERSE:
            return self._path(o, step.part, s, source, at)
        if step.name == NEGATED:
            return self._negated(s, listed(step.part), o, source, at)
        parts = listed(step.part)
        if step.name == ELEMENT:
            if step.mod == "?":
                return self._zero_or_one(s, parts[0], o, source, at)
            return self._closure(s, parts[0], o, source, at, zero=step.mod == "*" or is_nullable(parts[0]))
        if step.name == ALTERNATIVE:
            return Union(tuple(self._path(s, part, o, source, at) for part in parts))
        return self._sequence(s, parts_of_sequence(step), o, source, at)

    def _sequence(self, s: Term, parts: list[Any], o: Term, source: int, at: int) -> Node:
        """`path/path/...`: a join. A part with `*` is left out, or connects different nodes.

        So no part needs all nodes of the graph: what is left are nodes of it. That takes one part that is never empty.
        """
        stars = [k for k, part in enumerate(parts) if star_of(part) is not None]
        if not 0 < len(stars) <= _MOST_STARS or all(map(is_nullable, parts)):
            stars = []
        ways: list[Node] = []
        for count in range(len(stars) + 1):
            for left_out in combinations(stars, count):
                kept = [k for k in range(len(parts)) if k not in left_out]
                ends = [s, *(self.fresh() for _ in kept[1:]), o]
                steps = [
                    self._proper(ends[place], parts[k], ends[place + 1], source, at)
                    if k in stars
                    else self._path(ends[place], parts[k], ends[place + 1], source, at)
                    for place, k in enumerate(kept)
                ]
                ways.append(joined(steps))
        return ways[0] if len(ways) == 1 else Union(tuple(ways))

    # Closures (SPARQL 1.1, section 18.4, ZeroOrMorePath and OneOrMorePath)

    def _closure(self, s: Term, path: Any, o: Term, source: int, at: int, *, zero: bool) -> Node:
        """`path+`, and with `zero` `path*`: the set of the pairs that repetitions of a path connect."""
        if s == o and isinstance(s, Var):
            if zero:
                return self._zero(s, o, source, at)[0]
            other = self.fresh()
            return Filter(
                self._closed(s, path, other, source, at),
                Call("SAMETERM", (Variable(s.name), Variable(other.name))),
            )
        if not zero:
            return self._closed(s, path, o, source, at)
        if isinstance(s, Const) and isinstance(o, Const):
            return Values((), ((),)) if s == o else self._closed(s, path, o, source, at)
        # Pairs of different nodes, and of each node with itself: no pair is in both.
        zero_length, _ = self._zero(s, o, source, at)
        return Union((self._closed(s, path, o, source, at, proper=True), zero_length))

    def _closed(self, s: Term, path: Any, o: Term, source: int, at: int, *, proper: bool = False) -> Closure:
        start, end = self.fresh(), self.fresh()
        return Closure(self._step(start, path, end, source, at), start.name, end.name, s, o, proper)

    def _proper(self, s: Term, star: Any, o: Term, source: int, at: int) -> Closure:
        """`path*` without the paths from a node to itself."""
        found = star_of(star)
        assert found is not None
        path, inverse = found
        return self._closed(*((o, path, s) if inverse else (s, path, o)), source, at, proper=True)

    def _step(self, s: Var, path: Any, o: Var, source: int, at: int) -> Node:
        """One step of a closure: what repeats, repeats in the closure anyway, and what may be empty need not be."""
        step = plain(path)
        if isinstance(step, CompValue):
            if step.name == ELEMENT:
                return self._step(s, listed(step.part)[0], o, source, at)
            if step.name == INVERSE:
                return self._step(o, step.part, s, source, at)
            if step.name == ALTERNATIVE or (step.name == SEQUENCE and is_nullable(step)):
                return Union(tuple(self._step(s, part, o, source, at) for part in listed(step.part)))
        return self._path(s, path, o, source, at)

    def _negated(self, s: Term, parts: list[Any], o: Term, source: int, at: int) -> Node:
        """A negated property set: any predicate but these, forwards, backwards, or both."""
        backwards = [
            part.part for part in parts if isinstance(part, CompValue) and part.name == "InversePath"
        ]
        forwards = [
            part for part in parts if not (isinstance(part, CompValue) and part.name == "InversePath")
        ]
        sides: list[Node] = []
        for ends, names in (((s, o), forwards), ((o, s), backwards)):
            if names:
                predicate = self.fresh()
                line, column = self.query.place(at)
                listed = tuple(Constant(self.prologue.constant(name, at)) for name in names)
                condition = Call("NOT IN", (Variable(predicate.name), *listed), line, column)
                bgp = Bgp((Pattern(ends[0], predicate, ends[1], source, line, column),))
                sides.append(Filter(bgp, condition, line, column))
        return sides[0] if len(sides) == 1 else Union(tuple(sides))

    def _zero_or_one(self, s: Term, path: Any, o: Term, source: int, at: int) -> Node:
        """`path?`: the set of the pairs that the path connects, and of each node with itself."""
        one = self._path(s, path, o, source, at)
        zero, shown = self._zero(s, o, source, at, once=False)
        return Distinct(Project(Union((one, zero)), shown))

    def _zero(
        self, s: Term, o: Term, source: int, at: int, *, once: bool = True
    ) -> tuple[Node, tuple[str, ...]]:
        """A path of length zero: the nodes, each at both ends and once, if asked; and the variables of the ends.

        A term is at both ends of it, also one that is not in the graph.
        """
        if isinstance(s, Const) and isinstance(o, Const):
            return Values((), ((),) if s == o else ()), ()
        if isinstance(s, Var) and isinstance(o, Var):
            shown = tuple(dict.fromkeys((s.name, o.name)))
            nodes = self._nodes(s, source, at)
            if once:
                nodes = Distinct(Project(nodes, (s.name,)))
            return ZeroLength(nodes, s.name, o.name), shown
        free, fixed = (s, o) if isinstance(s, Var) else (o, s)
        assert isinstance(free, Var)
        assert isinstance(fixed, Const)
        return Values((free.name,), ((fixed,),)), (free.name,)

    def _nodes(self, node: Var, source: int, at: int) -> Node:
        """The subjects and objects of a graph."""
        line, column = self.query.place(at)
        first, second = self.fresh(), self.fresh()
        outgoing = Pattern(node, first, second, source, line, column)
        incoming = Pattern(second, first, node, source, line, column)
        return Union((Bgp((outgoing,)), Bgp((incoming,))))


def joined(nodes: Sequence[Node]) -> Node:
    """The join of some nodes; neighbouring basic graph patterns are one.

    >>> joined([])
    Bgp(patterns=())
    """
    kept: list[Node] = []
    for node in nodes:
        if isinstance(node, Bgp) and kept and isinstance(kept[-1], Bgp):
            kept[-1] = Bgp(kept[-1].patterns + node.patterns)
        elif node != Bgp():
            kept.append(node)
    if not kept:
        return Bgp()
    result = kept[0]
    for node in kept[1:]:
        result = Join(result, node)
    return result


def _expanded(runs: Iterable[Any], start: int) -> Iterator[Triple]:
    """The triples of runs that share a subject, each with the place where it begins."""
    reached = start - 1
    for run in runs:
        terms = list(run)
        for i in range(0, len(terms), 3):
            s, p, o = terms[i : i + 3]
            at = _begin((s, p, o), reached, start)
            reached = max(reached, at)
            yield s, p, o, at


def _begin(terms: tuple[Any, Any, Any], reached: int, fallback: int) -> int:
    """Where a pattern begins: at its first term that is written after the patterns before it."""
    places = [term.at for term in terms if hasattr(term, "at") and isinstance(term.at, int)]
    return min((at for at in places if at > reached), default=max(places, default=fallback))
