"""Allen's relations between two parts of a sequence, as alternatives: the orders of instants that fulfil them.

A part has an interval, from its first event to its last one. The thirteen relations are defined by the ends alone, so
that exactly one holds between any two intervals, also where one is a single instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from thalweg.algebra.sequences import FOLLOWED, Alternatives, Chain, Item, Line, Together, Use, lines_of

RELATIONS = (
    *("BEFORE", "MEETS", "OVERLAPS", "STARTS", "DURING", "FINISHES", "EQUALS"),
    *("AFTER", "MET BY", "OVERLAPPED BY", "STARTED BY", "CONTAINS", "FINISHED BY"),
)
_INVERSES = {
    "AFTER": "BEFORE",
    "MET BY": "MEETS",
    "OVERLAPPED BY": "OVERLAPS",
    "STARTED BY": "STARTS",
    "CONTAINS": "DURING",
    "FINISHED BY": "FINISHES",
}
Blocks = tuple[tuple[Use, ...], ...]


def holds(relation: str, first: int, last: int, other_first: int, other_last: int) -> bool:
    """Whether an interval has a relation to another one.

    >>> [name for name in RELATIONS if holds(name, 1, 3, 2, 5)]
    ['OVERLAPS']
    >>> [name for name in RELATIONS if holds(name, 2, 2, 2, 5)]
    ['STARTS']
    """
    if relation in _INVERSES:
        return holds(_INVERSES[relation], other_first, other_last, first, last)
    match relation:
        case "BEFORE":
            return last < other_first
        case "MEETS":
            return first < other_first == last < other_last
        case "OVERLAPS":
            return first < other_first < last < other_last
        case "STARTS":
            return first == other_first and last < other_last
        case "DURING":
            return other_first < first and last < other_last
        case "FINISHES":
            return other_first < first and last == other_last
    return first == other_first and last == other_last


def related(left: Item, relation: str, right: Item, most: int) -> list[Item]:
    """The alternatives of two parts with a relation, at most `most` and one more; the parts have blocks."""
    found: list[Item] = []
    for one, other in product(lines_of(left), lines_of(right)):
        for places, blocks in _merged(blocks_of(one), blocks_of(other)):
            mine, theirs = ([k for k, side in enumerate(places) if which in side] for which in (0, 1))
            if holds(relation, mine[0], mine[-1], theirs[0], theirs[-1]):
                found.append(_chain(blocks))
                if len(found) > most:
                    return found
    return found


def has_blocks(item: Item) -> bool:
    """Whether a part is made of atoms, `<>` of atoms, `;` and `|` alone."""
    match item:
        case Use() | Together():
            return True
        case Alternatives():
            return all(map(has_blocks, item.items))
        case Chain():
            return set(item.ops) <= {FOLLOWED} and all(map(has_blocks, item.items))
    return False


def blocks_of(line: Line) -> Blocks:
    """The atoms of each instant of a line."""
    return tuple(step.uses if isinstance(step, Together) else (step,) for step in line.steps)  # type: ignore[misc]


def _merged(one: Blocks, other: Blocks) -> Iterator[tuple[tuple[tuple[int, ...], ...], Blocks]]:
    """The ways in which the instants of two lines can be one list: which lines each is of, and its atoms."""
    if not one or not other:
        side = 0 if one else 1
        yield ((side,),) * len(one + other), one + other
        return
    for places, rest in _merged(one[1:], other):
        yield ((0,), *places), (one[0], *rest)
    for places, rest in _merged(one, other[1:]):
        yield ((1,), *places), (other[0], *rest)
    for places, rest in _merged(one[1:], other[1:]):
        yield ((0, 1), *places), (one[0] + other[0], *rest)


def _chain(blocks: Blocks) -> Item:
    items: list[Item] = [uses[0] if len(uses) == 1 else Together(uses) for uses in blocks]
    return items[0] if len(items) == 1 else Chain(tuple(items), (FOLLOWED,) * (len(items) - 1))
