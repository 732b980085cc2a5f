"""Texts of questions: what is refused, with its place, before any content is read for it."""

from __future__ import annotations

import re

import pyoxigraph as ox

from thalweg.algebra.query import Query
from thalweg.algebra.windows import Static, Unbounded
from thalweg.errors import QueryError, UnsupportedError
from thalweg.lang import parse

STREAM = "urn:thalweg:store"
"""The stream that the default graph of a question is, whatever streams a store has."""
_PLACE = re.compile(r"error at (\d+):(\d+): (.*)", re.DOTALL)
_LONGEST = 200


def check_windows(query: Query) -> None:
    """Refuse what a stream is asked, and no content."""
    if query.sequence is not None or any(
        not isinstance(source.window, Unbounded | Static) or source.streams not in ((), (STREAM,))
        for source in query.sources
    ):
        raise UnsupportedError("a store is asked without windows: name the instant or the window with as_of")


def check_syntax(text: str) -> None:
    """Refuse a text that Oxigraph does not take for a query."""
    try:
        ox.Store().query(text)
        return
    except SyntaxError as error:
        message = str(error.args[0] if error.args else error)
    raise as_query_error(text, message)


def as_query_error(text: str, message: str) -> QueryError:
    """The error of a text that Oxigraph refuses with a message: in our words where we refuse it, too."""
    try:
        query = parse(text, stream=STREAM)
    except UnsupportedError:
        pass
    except QueryError as own:
        return own
    else:
        try:
            check_windows(query)
        except UnsupportedError as own:
            return own
    place = _PLACE.search(message)
    if place is None:
        return QueryError(message[:_LONGEST], source="query")
    reason = f"syntax error: {place[3][:_LONGEST]}"
    return QueryError(reason, source="query", line=int(place[1]), column=int(place[2]))
