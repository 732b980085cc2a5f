"""Answers as bags of rows of pyoxigraph's terms, and when two of them are equal: up to the names of blank nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

import pyoxigraph as ox

Term = ox.NamedNode | ox.BlankNode | ox.Literal
TermRow = frozenset[tuple[str, Term]]
"""One solution: pairs of variable and term."""
Bag = Counter[TermRow]

_XSD = "http://www.w3.org/2001/XMLSchema#"
_FLOATS = (f"{_XSD}double", f"{_XSD}float")
_RDF_NAMES = ("subject", "predicate", "object")


@lru_cache(maxsize=1 << 14)
def term_of(text: str) -> Term:
    """The term of an N-Triples text.

    >>> term_of('"a\\\\u0062"@en')
    <Literal value=ab language=en>
    """
    [quad] = ox.parse(f"<x:s> <x:p> {text} .".encode(), format=ox.RdfFormat.N_TRIPLES)
    return quad.object  # type: ignore[no-any-return]


def answer_of(found: ox.QuerySolutions | ox.QueryBoolean | ox.QueryTriples) -> Bag:
    """The bag of a result of pyoxigraph: ASK has one row without bindings, or none; a graph has a row per triple."""
    if isinstance(found, ox.QueryBoolean):
        return Counter([frozenset()] if found else [])
    if isinstance(found, ox.QueryTriples):
        return Counter({frozenset(zip(_RDF_NAMES, triple, strict=True)) for triple in found})
    names = [variable.value for variable in found.variables]
    return Counter(
        frozenset((name, value) for name in names if (value := row[name]) is not None) for row in found
    )


def by_value(bag: Bag) -> Bag:
    """The bag with one spelling of each number: "2.0" and "2" are one decimal, but no integer.

    >>> one = Counter([frozenset({("x", term_of('"2.0"^^<http://www.w3.org/2001/XMLSchema#decimal>'))})])
    >>> [str(value) for row in by_value(one) for _, value in row]
    ['"2"^^<http://www.w3.org/2001/XMLSchema#decimal>']
    """
    return _mapped(bag, _spelled)


def lexical(bag: Bag) -> Bag:
    """The bag with plain texts, as a CSV file has them: without kinds of terms, types and names of blank nodes."""

    def shape(term: Term) -> Term:
        if isinstance(term, ox.BlankNode) or term.value.startswith("_:"):
            return ox.Literal("_:")
        try:
            return ox.Literal(repr(float(term.value)))
        except ValueError:
            return ox.Literal(term.value)

    return _mapped(bag, shape)


def _mapped(bag: Bag, shape: Callable[[Term], Term]) -> Bag:
    result: Bag = Counter()
    for row, n in bag.items():
        result[frozenset((name, shape(term)) for name, term in row)] += n
    return result


def _spelled(term: Term) -> Term:
    if not isinstance(term, ox.Literal):
        return term
    kind = term.datatype.value
    try:
        if kind == f"{_XSD}integer":
            return ox.Literal(str(int(term.value)), datatype=term.datatype)
        if kind == f"{_XSD}decimal":
            number = Decimal(term.value)
            whole = number == number.to_integral_value()
            text = str(int(number)) if whole else format(number.normalize(), "f")
            return ox.Literal(text, datatype=term.datatype)
        if kind in _FLOATS:
            return ox.Literal(repr(float(term.value)), datatype=term.datatype)
    except (ArithmeticError, ValueError):
        pass
    return term


def equal_bags(one: Bag, other: Bag) -> bool:
    """Whether two bags have the same rows as often, under one renaming of blank nodes.

    >>> def bag(*texts): return Counter(frozenset({("x", term_of(text))}) for text in texts)
    >>> equal_bags(bag("_:a", "_:a", "_:b"), bag("_:c", "_:d", "_:c"))
    True
    >>> equal_bags(bag("_:a", "_:a"), bag("_:c", "_:d"))
    False
    """
    if one == other:
        return True
    if _coloured(one, _colours(one, {})) != _coloured(other, _colours(other, {})):
        return False
    return _match(one, other, {}, {})


def _match(one: Bag, other: Bag, mine: dict[Term, object], yours: dict[Term, object]) -> bool:
    """Give nodes of the same colour the same name, one after the other, until all are named or none fits."""
    colours, others = _colours(one, mine), _colours(other, yours)
    if _coloured(one, colours) != _coloured(other, others):
        return False
    free = [node for node in colours if node not in mine]
    if not free:
        return True
    name = f"fixed {len(mine)}"
    for node in others:
        if (
            node not in yours
            and others[node] == colours[free[0]]
            and _match(one, other, mine | {free[0]: name}, yours | {node: name})
        ):
            return True
    return False


def _colours(bag: Bag, fixed: dict[Term, object]) -> dict[Term, object]:
    """A colour for each blank node, by the rows that it is in: equal under every renaming that keeps the fixed ones."""
    rows: dict[Term, list[tuple[TermRow, int]]] = defaultdict(list)
    for row, n in bag.items():
        for node in {term for _, term in row if isinstance(term, ox.BlankNode)}:
            rows[node].append((row, n))
    colours: dict[Term, object] = {node: fixed.get(node, "") for node in rows}
    seen = len(set(colours.values()))
    while rows:
        colours = {
            node: hash(
                (
                    colours[node],
                    tuple(sorted(hash((_painted(row, colours, node), n)) for row, n in rows[node])),
                )
            )
            for node in rows
        }
        if (now := len(set(colours.values()))) == seen:
            break
        seen = now
    return colours


def _painted(row: TermRow, colours: dict[Term, object], here: Term | None = None) -> frozenset[object]:
    return frozenset((name, "here" if term == here else colours.get(term, term)) for name, term in row)


def _coloured(bag: Bag, colours: dict[Term, object]) -> Counter[frozenset[object]]:
    result: Counter[frozenset[object]] = Counter()
    for row, n in bag.items():
        result[_painted(row, colours)] += n
    return result
