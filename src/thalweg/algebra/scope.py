"""Scopes: which variables a node of the tree binds in every solution, and which in some."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.algebra.nodes import Bgp, Construct, Distinct, Empty, Extend, Filter, Node, Project

TRIPLE = ("subject", "predicate", "object")
"""The columns of an answer that is a graph."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables of a node, in the order in which they appear: bound in some solution, and in every one."""

    possible: tuple[str, ...]
    certain: frozenset[str]

    def __post_init__(self) -> None:
        if not self.certain.issubset(self.possible):
            raise ValueError("what is bound in every solution is bound in some")


def scope_of(node: Node) -> Scope:
    """The scope of a node.

    >>> from thalweg.algebra.terms import Const, Pattern, Var
    >>> bgp = Bgp((Pattern(Var("x"), Const.iri("http://ex/p"), Var("y")),))
    >>> scope_of(Project(bgp, ("y", "nowhere"))).possible
    ('y',)
    """
    match node:
        case Bgp():
            names = tuple(dict.fromkeys(name for pattern in node.patterns for name in pattern.variables))
            return Scope(names, frozenset(names))
        case Filter() | Distinct() | Empty():
            return scope_of(node.input)
        case Extend():
            inner = scope_of(node.input)
            added = tuple(name for name, _ in node.values)
            return Scope((*inner.possible, *added), inner.certain.union(added))
        case Project():
            inner = scope_of(node.input)
            names = tuple(name for name in node.names if name in inner.possible)
            return Scope(names, inner.certain.intersection(names))
        case Construct():
            return Scope(TRIPLE, frozenset(TRIPLE))
