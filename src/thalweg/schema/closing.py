"""Closure of whole graphs: all that follows from some triples under a schema, as texts or as columns of ids."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from thalweg.rdf.arena import Arena
from thalweg.schema.axioms import BLANK, Schema
from thalweg.schema.expansion import Expansion
from thalweg.schema.network import Network
from thalweg.schema.reading import Triple

Ints = NDArray[np.int64]
Columns = tuple[Ints, Ints, Ints]


def close_columns(schema: Schema, arena: Arena, s: Ints, p: Ints, o: Ints) -> Columns:
    """The closure of a graph whose ids are of an arena: each triple once, the given ones first.

    >>> from thalweg.schema.axioms import RDFS
    >>> schema = Schema.of([("<a:p>", f"<{RDFS}domain>", "<a:C>")])
    >>> close_triples(schema, [("<a:x>", "<a:p>", '"5"')])[1]
    ('<a:x>', '<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>', '<a:C>')
    """
    given = _distinct(s, p, o)
    if not schema.transitive:
        derived = Expansion(Network(schema), arena).derive(*given)
        return _distinct(*(np.concatenate(pair) for pair in zip(given, derived[1:], strict=True)))
    # Chains may lead over what is not answerable.
    expansion = Expansion(Network(schema, general=True), arena)
    properties = arena.intern_all([one.encode() for one in sorted(schema.transitive)])
    found = new = given
    while len(new[0]):
        derived = expansion.derive(*new)
        found = _distinct(*(np.concatenate(pair) for pair in zip(found, derived[1:], strict=True)))
        new = _chains(*found, properties)
        found = _distinct(*(np.concatenate(pair) for pair in zip(found, new, strict=True)))
    return _answerable(arena, *found)


def _answerable(arena: Arena, s: Ints, p: Ints, o: Ints) -> Columns:
    """The triples that RDF allows and that name no blank node of a schema."""
    terms, back = np.unique(np.concatenate([s, p, o]), return_inverse=True)
    initials = arena.initials(terms)
    nodes = np.flatnonzero(initials == ord("_"))
    own = [text.startswith(BLANK) for text in arena.texts(terms[nodes])]
    initials[nodes[own]] = 0
    one, predicate, other = initials[back].reshape(3, len(s))
    kept = (one != ord('"')) & (one != 0) & (predicate == ord("<")) & (other != 0)
    return s[kept], p[kept], o[kept]


def close_triples(schema: Schema, triples: Iterable[Triple]) -> list[Triple]:
    """The closure of a graph of canonical texts: each triple once, the given ones first."""
    arena = Arena()
    columns = [arena.intern_all([term.encode() for term in column]) for column in zip(*triples, strict=True)]
    if not columns:
        return []
    s, p, o = (arena.texts(column) for column in close_columns(schema, arena, *columns))
    return list(zip(s, p, o, strict=True))


def _distinct(s: Ints, p: Ints, o: Ints) -> Columns:
    """Each triple once, where it came first."""
    if not len(s):
        return s, p, o
    order = np.lexsort((o, p, s))
    same = np.zeros(len(s), np.bool_)
    a, b, c = s[order], p[order], o[order]
    same[1:] = (a[1:] == a[:-1]) & (b[1:] == b[:-1]) & (c[1:] == c[:-1])
    kept = np.sort(order[~same])
    return s[kept], p[kept], o[kept]


def _chains(s: Ints, p: Ints, o: Ints, transitive: Ints) -> Columns:
    """The triples that chains of two or more of a transitive property make, and that are not there."""
    made: list[tuple[int, int, int]] = []
    for property in transitive.tolist():
        of_it = p == property
        after: dict[int, set[int]] = {}
        for one, other in zip(s[of_it].tolist(), o[of_it].tolist(), strict=True):
            after.setdefault(one, set()).add(other)
        for start, direct in after.items():
            reached, pending = set(direct), list(direct)
            while pending:
                more = after.get(pending.pop(), set()) - reached
                reached |= more
                pending += more
            made += [(start, property, end) for end in reached - direct]
    columns = np.array(made, np.int64).reshape(len(made), 3)
    return columns[:, 0].copy(), columns[:, 1].copy(), columns[:, 2].copy()
