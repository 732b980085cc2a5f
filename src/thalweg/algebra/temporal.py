"""Temporal patterns (EP-SPARQL): the orders in which the events of a pattern's parts can happen.

A solution of a pattern has an interval, from its first event to its last one. SEQ, EQUALS and their optional forms
compare the intervals of their operands, and a join has the interval of both. As an event is a point in time, a pattern
is a set of orders: lists of instants, each with the parts (numbers) that happen then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from thalweg.algebra.sequences import AT_ONCE, FOLLOWED, MOST_ALTERNATIVES, UNTIL_END

SEQ, EQUALS = "SEQ", "EQUALS"
OPTIONAL_SEQ, EQUALS_OPTIONAL = "OPTIONALSEQ", "EQUALSOPTIONAL"
JOIN, UNION = "JOIN", "UNION"
OPERATORS = (SEQ, EQUALS, OPTIONAL_SEQ, EQUALS_OPTIONAL)
OPTIONAL = (OPTIONAL_SEQ, EQUALS_OPTIONAL)
Blocks = tuple[tuple[int, ...], ...]


class TooManyOrdersError(Exception):
    """A pattern has more orders than an automaton should have alternatives."""


@dataclass(frozen=True, slots=True)
class Part:
    """A pattern that one event fulfils."""

    number: int


@dataclass(frozen=True, slots=True)
class Both:
    """Two patterns and the operator between them; `group` is what conditions of an optional right one can see."""

    operator: str
    left: Pattern
    right: Pattern
    group: int = -1


@dataclass(frozen=True, slots=True)
class Group:
    """A pattern in braces, which has conditions and an interval of its own."""

    pattern: Pattern
    number: int


@dataclass(frozen=True, slots=True)
class Without:
    """`left` where nothing stands between its two parts: the optional pattern would be `left` with one part more."""

    left: Pattern
    between: Part
    group: int
    ends: tuple[Part, Part]
    """What the first and the last part of `left` are called in the optional pattern."""


Pattern = Part | Both | Group | Without


@dataclass(frozen=True, slots=True)
class Missing:
    """A part that no event may fulfil after the instant of another one, where it would agree with those in `scope`."""

    part: int
    op: str
    after: int
    scope: frozenset[int]
    group: int
    before: int | None = None
    """With FOLLOWED: the part of the next instant."""


@dataclass(frozen=True, slots=True)
class Order:
    """The instants of a solution and the parts that happen at each; what must be missing; and the parts of groups."""

    blocks: Blocks
    missing: tuple[Missing, ...] = ()
    groups: tuple[tuple[int, frozenset[int]], ...] = ()

    @property
    def parts(self) -> frozenset[int]:
        """All parts that happen."""
        return frozenset(part for block in self.blocks for part in block)

    def grouped(self, number: int) -> Order:
        """The same order, in which all parts are those of a group."""
        return self if number < 0 else replace(self, groups=(*self.groups, (number, self.parts)))


def start_of(group: int) -> str:
    """The name of the variable that has the first time of a group; no query can write it."""
    return f"start of {group}"


def end_of(group: int) -> str:
    """The name of the variable that has the last time of a group."""
    return f"end of {group}"


def is_time_of_group(name: str) -> bool:
    """Whether a variable has a time of a group, and no query can write it."""
    return " of " in name


def orders_of(pattern: Pattern) -> list[Order]:
    """All orders in which a pattern can happen.

    >>> a, b, c = map(Part, range(3))
    >>> [order.blocks for order in orders_of(Both(SEQ, a, Both(EQUALS, b, c)))]
    [((0,), (1, 2))]
    >>> [order.blocks for order in orders_of(Both(JOIN, a, b))]
    [((0,), (1,)), ((1,), (0,)), ((0, 1),)]
    """
    match pattern:
        case Part():
            return [Order(((pattern.number,),))]
        case Group():
            return [order.grouped(pattern.number) for order in orders_of(pattern.pattern)]
        case Without():
            return _without(pattern)
    left, right = orders_of(pattern.left), orders_of(pattern.right)
    if pattern.operator == UNION:
        return _counted([*left, *right])
    together = [
        Order(blocks, one.missing + other.missing, one.groups + other.groups).grouped(pattern.group)
        for one, other in product(left, right)
        for blocks in _combined(pattern.operator, one.blocks, other.blocks)
    ]
    if pattern.operator not in OPTIONAL:
        return _counted(together)
    assert isinstance(pattern.right, Part)
    part, group = pattern.right.number, pattern.group
    for order in left:
        missing = order.missing
        if pattern.operator == OPTIONAL_SEQ:
            missing += (Missing(part, UNTIL_END, order.blocks[-1][0], order.parts, group),)
        elif len(order.blocks) == 1:  # one event never has the interval of several instants
            missing += (Missing(part, AT_ONCE, order.blocks[0][0], order.parts, group),)
        together.append(replace(order, missing=missing))
    return _counted(together)


def _without(pattern: Without) -> list[Order]:
    """The orders of a pattern with something between its ends, and of the same pattern without it."""
    found = []
    for order in orders_of(pattern.left):
        first, last = order.blocks
        ends = pattern.ends
        blocks = ((*first, ends[0].number), (pattern.between.number,), (*last, ends[1].number))
        found.append(replace(order, blocks=blocks).grouped(pattern.group))
        missing = Missing(
            pattern.between.number, FOLLOWED, first[0], order.parts, pattern.group, before=last[0]
        )
        found.append(replace(order, missing=(*order.missing, missing)))
    return found


def _counted(orders: list[Order]) -> list[Order]:
    if len(orders) > MOST_ALTERNATIVES:
        raise TooManyOrdersError
    return orders


def _combined(operator: str, one: Blocks, other: Blocks) -> Iterator[Blocks]:
    if operator in (SEQ, OPTIONAL_SEQ):
        yield one + other
    elif operator == JOIN:
        yield from _bounded(_merged(one, other))
    elif len(one) == 1 and len(other) == 1:
        yield (one[0] + other[0],)
    elif len(one) > 1 and len(other) > 1:
        for inner in _bounded(_merged(one[1:-1], other[1:-1])):
            yield (one[0] + other[0], *inner, one[-1] + other[-1])


def _bounded(found: Iterator[Blocks]) -> Iterator[Blocks]:
    for count, blocks in enumerate(found):
        if count >= MOST_ALTERNATIVES:
            raise TooManyOrdersError
        yield blocks


def _merged(one: Blocks, other: Blocks) -> Iterator[Blocks]:
    """The ways in which two lists of instants can be one list; instants of both may be the same."""
    if not one or not other:
        yield one + other
        return
    for rest in _merged(one[1:], other):
        yield (one[0], *rest)
    for rest in _merged(one, other[1:]):
        yield (other[0], *rest)
    for rest in _merged(one[1:], other[1:]):
        yield (one[0] + other[0], *rest)
