"""The logical tree of a query: frozen nodes that refuse nonsense when they are made.

A rule rewrites the tree. Readers, pruning, sharding and the match program read the flat table of leaf patterns that
`leaves` derives from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from thalweg.algebra.terms import Const, Pattern, Var


@dataclass(frozen=True, slots=True)
class Equality:
    """A condition that leaves a variable one value: `?k = <iri>` or `sameTerm(?k, ...)`."""

    variable: str
    value: Const
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"?{self.variable} = {self.value}"


@dataclass(frozen=True, slots=True)
class Bgp:
    """A basic graph pattern: the join of triple patterns, each over a source of the query."""

    patterns: tuple[Pattern, ...]

    def __post_init__(self) -> None:
        if not self.patterns:
            raise ValueError("a query has at least one pattern and one source")


@dataclass(frozen=True, slots=True)
class Filter:
    """The solutions of the input that fulfil all conditions."""

    input: Node
    conditions: tuple[Equality, ...]


@dataclass(frozen=True, slots=True)
class Extend:
    """The solutions of the input, each with the same values of variables that a rule replaced by constants."""

    input: Node
    values: tuple[tuple[str, Const], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.values]
        bound = {name for pattern in leaves(self.input) for name in pattern.variables}
        if len(set(names)) != len(names) or bound.intersection(names):
            raise ValueError("a fixed variable has one value and is in no pattern")


@dataclass(frozen=True, slots=True)
class Empty:
    """No solution over any data, with the variables of the input; `reason` says why."""

    input: Node
    reason: str


@dataclass(frozen=True, slots=True)
class Project:
    """The solutions of the input with these variables only; one that is never bound stays unbound."""

    input: Node
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ValueError("a variable is projected once")


@dataclass(frozen=True, slots=True)
class Distinct:
    """The input as a set."""

    input: Node


@dataclass(frozen=True, slots=True)
class Construct:
    """The set of the triples that a template gives for the solutions of the input.

    An anonymous variable of the template is a new blank node in each solution. `unbound` are the variables of triples
    that a rule has dropped, because nothing binds them.
    """

    input: Node
    template: tuple[Pattern, ...]
    unbound: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        made = (Var(name) for triple in self.template for name in triple.variables)
        bound = {name for pattern in leaves(self.input) for name in pattern.variables}
        needed = {term.name for term in made if not term.anonymous} & bound
        project = find(self.input, Project)
        if project is not None and not needed.issubset(project.names):
            raise ValueError("a template is made of what a solution keeps")


Node = Bgp | Filter | Extend | Empty | Project | Distinct | Construct
N = TypeVar("N", Bgp, Filter, Extend, Empty, Project, Distinct, Construct)


def walk(node: Node) -> Iterator[Node]:
    """A node and all nodes below it, from the top down."""
    yield node
    if not isinstance(node, Bgp):
        yield from walk(node.input)


def find(node: Node, kind: type[N]) -> N | None:
    """The first node of a kind, from the top down."""
    return next((found for found in walk(node) if isinstance(found, kind)), None)


def transform(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with each node changed, from the bottom up; the same object where nothing changes."""
    if not isinstance(node, Bgp):
        below = transform(node.input, change)
        if below is not node.input:
            node = replace(node, input=below)
    return change(node)


def leaves(node: Node) -> tuple[Pattern, ...]:
    """The flat table of leaf patterns: the place of a pattern in it is its number."""
    return tuple(pattern for found in walk(node) if isinstance(found, Bgp) for pattern in found.patterns)


def with_leaves(node: Node, patterns: tuple[Pattern, ...]) -> Node:
    """The tree with other leaf patterns, in the order of `leaves`."""
    rest = list(patterns)

    def change(found: Node) -> Node:
        if not isinstance(found, Bgp):
            return found
        taken, rest[:] = rest[: len(found.patterns)], rest[len(found.patterns) :]
        return found if found.patterns == tuple(taken) else Bgp(tuple(taken))

    return transform(node, change)
