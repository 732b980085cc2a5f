"""Shapes: units that differ only in constants share one plan, in which those constants are parameters.

A parameter is bound by the rows of a search, as a variable is. Which values belong to which unit is looked up: as soon
as a step has bound one, so that what concerns no query is given up early, and at a solution, to find whose it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thalweg.algebra.query import Query
from thalweg.algebra.terms import Const, Pattern, Term, Var

FEW_QUERIES = 32
"""Up to so many are planned each by itself, by its own statistics."""
_FEW_ALIKE = 4  # units of a shape below which sharing does not pay


@dataclass(frozen=True)
class Unit:
    """What the kernel takes for a leaf of a query: a connected part of it, with the variables that it shows."""

    query: int
    part: tuple[int, ...]
    shown: tuple[str, ...]
    leaf: int = 0


@dataclass(frozen=True)
class Shape:
    """Units with one plan.

    `patterns` are those of the first unit, by their numbers there; variables and parameters have names of the shape.
    `values[k]` are the parameters of unit `units[k]`, `places[k]` maps the variables of the shape to its own.
    """

    units: tuple[int, ...]
    parts: tuple[tuple[int, ...], ...]
    patterns: Mapping[int, Pattern]
    variables: tuple[str, ...]
    parameters: tuple[str, ...]
    values: tuple[tuple[Const, ...], ...]
    places: tuple[dict[str, int], ...]


def shapes_of(
    units: Sequence[Unit], queries: Sequence[Query], stores: Sequence[Sequence[int]], *, share: bool
) -> list[Shape]:
    """Units by shape; `stores[q][k]` is the store that pattern k of query q reads. Without `share`, each is its own."""
    alike: dict[object, list[int]] = {}
    for number, unit in enumerate(units):
        query = queries[unit.query]
        key: object = number
        if share:
            names = _places(query, unit.part)
            key = tuple((stores[unit.query][k], *_blanked(query.patterns[k], names)) for k in unit.part)
        alike.setdefault(key, []).append(number)
    shapes = []
    for members in alike.values():
        groups = [members] if len(members) >= _FEW_ALIKE else [[member] for member in members]
        shapes += [_shape(group, units, queries) for group in groups]
    return shapes


def _places(query: Query, part: Sequence[int]) -> dict[str, int]:
    """The variables of a part in the order in which they first appear."""
    names = dict.fromkeys(name for k in part for name in query.patterns[k].variables)
    return {name: place for place, name in enumerate(names)}


def _blanked(pattern: Pattern, names: dict[str, int]) -> tuple[object, ...]:
    """A pattern without its names, and without the constants that may differ: predicates distinguish shapes."""
    return (
        names[pattern.s.name] if isinstance(pattern.s, Var) else "",
        names[pattern.p.name] if isinstance(pattern.p, Var) else pattern.p.text,
        names[pattern.o.name] if isinstance(pattern.o, Var) else "",
    )


def _shape(members: Sequence[int], units: Sequence[Unit], queries: Sequence[Query]) -> Shape:
    parts = tuple(units[member].part for member in members)
    asked = [queries[units[member].query] for member in members]
    places = tuple(_places(query, part) for query, part in zip(asked, parts, strict=True))
    parameters: dict[
        tuple[Const, ...], str
    ] = {}  # the constants of all members at some position, and their name
    patterns: dict[int, Pattern] = {}
    for rank, number in enumerate(parts[0]):
        alike = [query.patterns[part[rank]] for query, part in zip(asked, parts, strict=True)]
        terms: list[Term] = []
        for position in range(3):
            term = alike[0].terms[position]
            if isinstance(term, Var):
                terms.append(Var(f"v{places[0][term.name]}"))
                continue
            constants = tuple(other.terms[position] for other in alike)
            if len(set(constants)) > 1:
                terms.append(Var(parameters.setdefault(constants, f"p{len(parameters)}")))  # type: ignore[arg-type]
            else:
                terms.append(term)
        s, p, o = terms
        patterns[number] = Pattern(s, p, o)
    values = tuple(zip(*parameters, strict=True)) if parameters else ((),) * len(members)
    return Shape(
        units=tuple(members),
        parts=parts,
        patterns=patterns,
        variables=tuple(f"v{place}" for place in range(len(places[0]))),
        parameters=tuple(parameters.values()),
        values=values,
        places=places,
    )
