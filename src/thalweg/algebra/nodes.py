"""The logical tree of a query: frozen nodes that refuse nonsense when they are made.

A rule rewrites the tree. Readers, pruning, sharding and the match program read the flat table of leaf patterns that
`leaves` derives from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from thalweg.algebra.expressions import Expression
from thalweg.algebra.terms import Const, Pattern, Term, Var, quoted

AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")


@dataclass(frozen=True, slots=True)
class Bgp:
    """A basic graph pattern: the join of triple patterns, each over a source of the query.

    Without a pattern it has one solution, which binds nothing.
    """

    patterns: tuple[Pattern, ...] = ()


@dataclass(frozen=True, slots=True)
class Values:
    """Solutions that the query lists; None is a variable that a solution leaves unbound."""

    names: tuple[str, ...]
    rows: tuple[tuple[Const | None, ...], ...]

    def __post_init__(self) -> None:
        if any(len(row) != len(self.names) for row in self.rows):
            raise ValueError("a row of VALUES has a value or UNDEF for each variable")


@dataclass(frozen=True, slots=True)
class Join:
    """The compatible pairs of solutions."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class LeftJoin:
    """OPTIONAL: the compatible pairs that fulfil the condition, and the left solutions that are in none."""

    left: Node
    right: Node
    condition: Expression | None = None


@dataclass(frozen=True, slots=True)
class Union:
    """The solutions of all inputs."""

    inputs: tuple[Node, ...]

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("a union has at least one input")


@dataclass(frozen=True, slots=True)
class Minus:
    """The left solutions without a compatible right one that shares a bound variable with them."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Exists:
    """The left solutions for which the right group has a solution, or, if `negated`, has none.

    Variables of the left solution are visible everywhere in the right group. With a `mark`, all left solutions stay,
    and that variable has the answer as a boolean.
    """

    left: Node
    right: Node
    negated: bool = False
    mark: str | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """The solutions of the input that fulfil a condition; `line` and `column` are where it is written."""

    input: Node
    condition: Expression
    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True)
class Extend:
    """BIND: the solutions of the input with one more variable, which stays unbound where its expression fails."""

    input: Node
    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Fixed:
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
class Closure:
    """The pairs of terms that a chain of one or more steps connects, each pair once.

    A step is a solution of the input, from its variable `start` to its variable `end`. A pair binds the subject and the
    object, where these are variables. With `proper`, no term is paired with itself: paths of length zero do that.
    """

    input: Node
    start: str
    end: str
    subject: Term
    object: Term
    proper: bool = False

    def __post_init__(self) -> None:
        if self.subject == self.object and isinstance(self.subject, Var):
            raise ValueError("the ends of a closure are two variables")
        if self.start == self.end:
            raise ValueError("a step has two ends")

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that a pair binds."""
        return tuple(term.name for term in (self.subject, self.object) if isinstance(term, Var))


@dataclass(frozen=True, slots=True)
class ZeroLength:
    """Paths of length zero between variables: each node of a graph is at both ends.

    The input binds the subject to each node once. Inside EXISTS, a variable that an outer solution binds is a term, and
    that is at both ends of such a path, whether it is in the graph or not.
    """

    input: Node
    subject: str
    object: str


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
class Aggregate:
    """A set function over the values of a variable in a group; over whole solutions where there is no variable.

    >>> print(Aggregate("COUNT", None, distinct=True))
    COUNT(DISTINCT *)
    """

    function: str
    argument: str | None
    distinct: bool = False
    separator: str = " "

    def __post_init__(self) -> None:
        if self.function not in AGGREGATES:
            raise ValueError(f"unknown aggregate {self.function!r}")
        if self.argument is None and self.function != "COUNT":
            raise ValueError(f"{self.function} needs an argument")

    def __str__(self) -> str:
        of = "*" if self.argument is None else str(Var(self.argument))
        joined = f"; SEPARATOR={quoted(self.separator)}" if self.function == "GROUP_CONCAT" else ""
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{of}{joined})"


@dataclass(frozen=True, slots=True)
class Group:
    """The groups of the input's solutions by the values of keys, each with its aggregates.

    Solutions that leave a key unbound are one group. Without keys there is one group, also of no solutions.
    """

    input: Node
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]

    def __post_init__(self) -> None:
        names = [*self.keys, *(name for name, _ in self.aggregates)]
        if len(set(names)) != len(names):
            raise ValueError("a group has each key and each aggregate once")


@dataclass(frozen=True, slots=True)
class OrderBy:
    """The solutions of the input in the order of variables; each has whether it descends."""

    input: Node
    conditions: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """So many solutions of the input, after the first `offset`, in their order, made total by their texts."""

    input: Node
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """One solution that binds nothing, while the input has some."""

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


Leaf = Bgp | Values
Unary = (
    Filter
    | Extend
    | Fixed
    | Empty
    | Closure
    | ZeroLength
    | Project
    | Distinct
    | Group
    | OrderBy
    | Slice
    | Ask
    | Construct
)
Node = Leaf | Unary | Join | LeftJoin | Union | Minus | Exists
N = TypeVar("N", bound=Node)


def children(node: Node) -> tuple[Node, ...]:
    """The inputs of a node, from left to right."""
    match node:
        case Bgp() | Values():
            return ()
        case Union():
            return node.inputs
        case Join() | LeftJoin() | Minus() | Exists():
            return (node.left, node.right)
    return (node.input,)


def with_children(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The node over other inputs; the same object where they are the same."""
    if all(new is old for new, old in zip(inputs, children(node), strict=True)):
        return node
    match node:
        case Union():
            return Union(inputs)
        case Join() | LeftJoin() | Minus() | Exists():
            return replace(node, left=inputs[0], right=inputs[1])
        case Bgp() | Values():
            return node
    return replace(node, input=inputs[0])


def walk(node: Node) -> Iterator[Node]:
    """A node and all nodes below it, from the top down and from left to right."""
    pending = [node]
    while pending:
        found = pending.pop()
        yield found
        pending.extend(reversed(children(found)))


def spine(node: Node) -> Iterator[Node]:
    """A node and what is below it, down to the first node that has not exactly one input, is a path or makes groups."""
    yield node
    while len(inputs := children(node)) == 1 and not isinstance(node, Closure | ZeroLength | Group):
        (node,) = inputs
        yield node


def depth_of(node: Node) -> int:
    """How many nodes are nested at most."""
    deepest, pending = 0, [(node, 1)]
    while pending:
        found, depth = pending.pop()
        deepest = max(deepest, depth)
        pending += [(below, depth + 1) for below in children(found)]
    return deepest


def find(node: Node, kind: type[N]) -> N | None:
    """The first node of a kind, from the top down."""
    return next((found for found in walk(node) if isinstance(found, kind)), None)


def transform(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with each node changed, from the bottom up; the same object where nothing changes."""
    return change(with_children(node, tuple(transform(below, change) for below in children(node))))


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


def is_flat(node: Node) -> bool:
    """Whether the tree is a basic graph pattern under a projection: its solutions are rows of the answer."""
    flat = (Bgp, Fixed, Empty, Project, Distinct, Construct)
    found = list(walk(node))
    return all(isinstance(one, flat) for one in found) and bool(leaves(node)) and _in_order(found)


def _in_order(found: list[Node]) -> bool:
    """Whether the only projection is above everything that is not the form of the answer."""
    kinds = [type(one) for one in found]
    return (
        kinds.count(Project) <= 1
        and kinds.count(Distinct) <= 1
        and (Distinct not in kinds or Project not in kinds or kinds.index(Distinct) < kinds.index(Project))
    )
