"""Delta plans: for each pattern that a new triple may fit, the order in which the others are probed."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.algebra.nodes import Const, Pattern, Query, Var
from thalweg.kernels.store import ALL, PO, SP, SPO, O, P, S

INDEX_NAMES = {SPO: "spo", SP: "sp", PO: "po", P: "p", S: "s", O: "o", ALL: "scan"}

# By which index a pattern is probed, given which of (s, p, o) are known. A known pair (s, o) is found
# through s. The order of the values is the order of preference: fewer candidate rows first.
_INDEX = {
    (True, True, True): SPO,
    (True, True, False): SP,
    (True, False, True): S,
    (False, True, True): PO,
    (True, False, False): S,
    (False, False, True): O,
    (False, True, False): P,
    (False, False, False): ALL,
}
_PREFERENCE = (SPO, SP, PO, S, O, P, ALL)


@dataclass(frozen=True, slots=True)
class Probe:
    """One step of a delta plan: a pattern and the index by which its candidate rows are found."""

    pattern: int
    index: int


@dataclass(frozen=True, slots=True)
class DeltaPlan:
    """What is done when a triple fits pattern `start`."""

    start: int
    probes: tuple[Probe, ...]


def delta_plans(query: Query) -> tuple[DeltaPlan, ...]:
    """One delta plan for each pattern of the query."""
    return tuple(_plan(query.patterns, start) for start in range(len(query.patterns)))


def _plan(patterns: tuple[Pattern, ...], start: int) -> DeltaPlan:
    """Takes next, each time, the pattern with the fewest candidates by what is bound so far.

    Patterns that share a variable with the bound ones come before those that do not: a product with a
    component apart is made last.
    """
    bound = set(patterns[start].variables)
    left = [number for number in range(len(patterns)) if number != start]
    probes = []
    while left:
        best = min(left, key=lambda number: _rank(patterns[number], bound, number))
        left.remove(best)
        probes.append(Probe(best, _index_for(patterns[best], bound)))
        bound.update(patterns[best].variables)
    return DeltaPlan(start, tuple(probes))


def _index_for(pattern: Pattern, bound: set[str]) -> int:
    s, p, o = (isinstance(term, Const) or term.name in bound for term in pattern.terms)
    return _INDEX[s, p, o]


def _rank(pattern: Pattern, bound: set[str], number: int) -> tuple[bool, int, int, int]:
    apart = bool(pattern.variables) and not bound.intersection(pattern.variables)
    constants = sum(not isinstance(term, Var) for term in pattern.terms)
    return (apart, _PREFERENCE.index(_index_for(pattern, bound)), -constants, number)
