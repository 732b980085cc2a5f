"""Triple patterns and paths: rdflib's runs of terms become basic graph patterns, joins and unions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import rdflib
from rdflib.plugins.sparql.parserutils import CompValue

from thalweg.algebra.expressions import Call, Constant, Variable
from thalweg.algebra.nodes import Bgp, Distinct, Extend, Filter, Join, Node, Project, Union, Values
from thalweg.algebra.terms import Const, Pattern, Term, Var
from thalweg.lang.grammar import AnonymousNode, PlacedVariable
from thalweg.lang.names import Prologue
from thalweg.lang.text import QueryText

_PATHS = ("PathAlternative", "PathSequence", "PathElt", "PathEltOrInverse", "PathNegatedPropertySet")
_STEPS = ("PathAlternative", "PathSequence", "PathElt")
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
        plain = _plain(path)
        if isinstance(plain, CompValue) and plain.name in _PATHS:
            self.query.fail("a path cannot stand in a template", at)
        return self.term(plain, at)

    # Paths (SPARQL 1.1, section 18.2.2.3)

    def _path(self, s: Term, path: Any, o: Term, source: int, at: int) -> Node:
        step = _plain(path)
        if not isinstance(step, CompValue) or step.name not in _PATHS:
            return Bgp((Pattern(s, self.term(step, at), o, source, *self.query.place(at)),))
        if step.name == "PathEltOrInverse":
            return self._path(o, step.part, s, source, at)
        if step.name == "PathNegatedPropertySet":
            return self._negated(s, _listed(step.part), o, source, at)
        parts = _listed(step.part)
        if step.name == "PathElt":
            if step.mod == "?":
                return self._zero_or_one(s, parts[0], o, source, at)
            self.query.refuse(f"paths of any length ({step.mod}) are not supported yet", step.at)
        if step.name == "PathAlternative":
            return Union(tuple(self._path(s, part, o, source, at) for part in parts))
        ends = [s, *(self.fresh() for _ in parts[1:]), o]
        return joined([self._path(ends[k], part, ends[k + 1], source, at) for k, part in enumerate(parts)])

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
        if isinstance(s, Const) and isinstance(o, Const):
            zero: Node = Values((), ((),) if s == o else ())
            shown: tuple[str, ...] = ()
        elif isinstance(s, Var) and isinstance(o, Var):
            zero = self._nodes(s, source, at)
            if o != s:
                zero = Extend(zero, o.name, Variable(s.name))
            shown = tuple(dict.fromkeys((s.name, o.name)))
        else:
            free, fixed = (s, o) if isinstance(s, Var) else (o, s)
            assert isinstance(free, Var)
            assert isinstance(fixed, Const)
            zero, shown = Values((free.name,), ((fixed,),)), (free.name,)
        return Distinct(Project(Union((one, zero)), shown))

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


def _plain(path: Any) -> Any:
    """A path without the layers of one part that rdflib wraps around every predicate."""
    while isinstance(path, CompValue) and path.name in _STEPS and path.mod is None:
        parts = _listed(path.part)
        if len(parts) != 1:
            break
        path = parts[0]
    return path


def _listed(part: Any) -> list[Any]:
    return list(part) if isinstance(part, list) else [part]


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
