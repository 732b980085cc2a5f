"""What a query can use of a store's history, and errors of queries with their places."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from thalweg.algebra.expressions import exists_in
from thalweg.algebra.nodes import Extend, Filter, LeftJoin, leaves, walk
from thalweg.errors import QueryError, ThalwegError, UnsupportedError
from thalweg.lang import parse
from thalweg.rdf.arena import Arena
from thalweg.store.facts import Facts, Mask

_PLACE = re.compile(r"error at (\d+):(\d+): (.*)", re.DOTALL)
_STREAM = "urn:thalweg:store"
_LONGEST = 200


@dataclass(frozen=True)
class Wanted:
    """The constants of a query's triple patterns: other triples change nothing in its answer."""

    patterns: tuple[tuple[str | None, str | None, str | None], ...]

    def mask(self, facts: Facts, arena: Arena) -> Mask:
        """Which rows some pattern can match."""
        found = np.zeros(len(facts), np.bool_)
        for pattern in self.patterns:
            fits = np.ones(len(facts), np.bool_)
            for text, column in zip(pattern, (facts.s, facts.p, facts.o), strict=True):
                if text is not None:
                    fits &= column == arena.find(text.encode())
            found |= fits
        return found


def wanted_of(text: str) -> Wanted | None:
    """What a query can use; None where that is not known, e.g. because it reads named graphs."""
    if re.search(r"\b(GRAPH|FROM|DESCRIBE|EXISTS|SERVICE)\b", text, re.IGNORECASE):
        return None
    try:
        query = parse(text, stream=_STREAM)
    except ThalwegError:  # Oxigraph decides what is a query here
        return None
    for node in walk(query.root):
        expression = (
            node.condition
            if isinstance(node, Filter | LeftJoin)
            else node.expression
            if isinstance(node, Extend)
            else None
        )
        if expression is not None and exists_in(expression):
            return None
    return Wanted(tuple(sorted({pattern.constants for pattern in leaves(query.root)}, key=str)))


def as_query_error(text: str, message: str) -> QueryError:
    """The error of a text that Oxigraph refuses with a message: in our words where we refuse it, too."""
    try:
        parse(text, stream=_STREAM)
    except UnsupportedError:
        pass
    except QueryError as own:
        return own
    place = _PLACE.search(message)
    if place is None:
        return QueryError(message[:_LONGEST], source="query")
    reason = f"syntax error: {place[3][:_LONGEST]}"
    return QueryError(reason, source="query", line=int(place[1]), column=int(place[2]))
