"""C-SPARQL: `REGISTER QUERY q AS`, and `FROM STREAM <s> [RANGE 30m STEP 5m]`, a part of the default graph.

Without REGISTER, FROM STREAM is the short form that SPARQL and RSP-QL texts use, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.algebra.windows import Window
from thalweg.lang.clauses import Cursor, Name, Token
from thalweg.lang.rspql import Registration
from thalweg.lang.windows import read_window


@dataclass(frozen=True, slots=True)
class DefaultStream:
    """A stream whose window is part of the query's default graph."""

    stream: Name
    window: Window
    at: int


def registration(cursor: Cursor, register: Token) -> Registration:
    """What follows REGISTER, if it is C-SPARQL: the word QUERY and the query's own name."""
    cursor.expect("QUERY")
    if cursor.peek().kind not in ("word", "iri", "pname"):
        cursor.name("the query's name")
    cursor.next()
    if computed := cursor.take("COMPUTED"):
        cursor.query.refuse("COMPUTED EVERY is not supported: STEP sets when to report", computed.at)
    cursor.expect("AS")
    return Registration("C-SPARQL", None, None, register.at)


def default_stream(cursor: Cursor, start: Token) -> DefaultStream:
    """What follows FROM STREAM."""
    stream = cursor.name("a stream")
    return DefaultStream(stream, read_window(cursor), start.at)
