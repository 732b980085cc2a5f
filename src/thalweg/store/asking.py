"""Errors of queries with their places."""

from __future__ import annotations

import re

from thalweg.errors import QueryError, UnsupportedError
from thalweg.lang import parse

_PLACE = re.compile(r"error at (\d+):(\d+): (.*)", re.DOTALL)
_STREAM = "urn:thalweg:store"
_LONGEST = 200


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
