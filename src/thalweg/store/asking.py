"""Texts of questions: what is refused, with its place, before any content is read for it."""

from __future__ import annotations

import re

import pyoxigraph as ox

from thalweg.algebra.query import Query
from thalweg.algebra.windows import Static, Unbounded
from thalweg.arguments import time_of
from thalweg.errors import QueryError, UnsupportedError, UsageError
from thalweg.instants import Time, show_instant
from thalweg.lang import parse
from thalweg.lang.clauses import Cursor, Token
from thalweg.lang.text import QueryText

STREAM = "urn:thalweg:store"
"""The stream that the default graph of a question is, whatever streams a store has."""
AsOf = Time | tuple[Time, Time]
"""An instant, or a window: what came after its first instant, up to and including its second."""
_PLACE = re.compile(r"error at (\d+):(\d+): (.*)", re.DOTALL)
_LONGEST = 200


def bounds(as_of: AsOf | None, horizon: int | None) -> tuple[int | None, int | None]:
    """The microseconds between which events are seen."""
    if as_of is None:
        return None, None
    start, end = as_of if isinstance(as_of, tuple) else (None, as_of)
    low, high = None if start is None else time_of(start), time_of(end)
    if low is not None and low >= high:
        raise UsageError(f"the window ends before it begins: {start} to {end}")
    if horizon is not None and (high < horizon or (low is not None and low < horizon)):
        raise UsageError(
            f"the history before {show_instant(horizon)} was dropped when the store was compacted"
        )
    return low, high


def check_windows(query: Query) -> None:
    """Refuse what a stream is asked, and no content."""
    if query.sequence is not None or any(
        not isinstance(source.window, Unbounded | Static) or source.streams not in ((), (STREAM,))
        for source in query.sources
    ):
        raise UnsupportedError("a store is asked without windows: name the instant or the window with as_of")


def check_syntax(text: str) -> None:
    """Refuse a text that Oxigraph does not take for a query, and what would make a network call."""
    for token in _tokens(text):
        if token.depth > 0 and token.matches("SERVICE"):
            QueryText(text).refuse("SERVICE is not supported: a query makes no network call", token.at)
    try:
        ox.Store().query(text)
        return
    except SyntaxError as error:
        message = str(error.args[0] if error.args else error)
    raise as_query_error(text, message)


def names_graphs(text: str) -> bool:
    """Whether a query chooses its graphs by FROM or FROM NAMED."""
    return any(token.depth == 0 and token.matches("FROM") for token in _tokens(text))


def _tokens(text: str) -> list[Token]:
    try:
        return Cursor(QueryText(text)).tokens
    except QueryError:  # what we cannot read, Oxigraph refuses as well
        return []


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
