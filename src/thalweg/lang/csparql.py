"""C-SPARQL: `REGISTER QUERY q AS`, and `FROM STREAM <s> [RANGE 30m STEP 5m]`, a part of the default graph.

`FROM NAMED STREAM` makes it a named graph. Without REGISTER, FROM STREAM is the short form that SPARQL and RSP-QL
texts use, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.algebra.windows import Window
from thalweg.lang.clauses import Cursor, Name, Token
from thalweg.lang.rspql import NamedWindow, Registration, entailment
from thalweg.lang.windows import read_duration, read_window


@dataclass(frozen=True, slots=True)
class DefaultStream:
    """A stream whose window is part of the query's default graph."""

    stream: Name
    window: Window
    at: int


def registration(cursor: Cursor, register: Token) -> Registration:
    """What follows REGISTER, if it is C-SPARQL: QUERY or STREAM, a name, and how often it is computed.

    The name of a query has no meaning. That of a stream is a relative IRI: `REGISTER STREAM s AS` makes `<s>`.
    """
    kind = cursor.expect("QUERY", "STREAM")
    name = _name(cursor)
    every = None
    if cursor.take("COMPUTED"):
        cursor.expect("EVERY")
        every = read_duration(cursor, "COMPUTED EVERY")
    regime = entailment(cursor) if cursor.take("UNDER") else None
    cursor.expect("AS")
    output = name if kind.matches("STREAM") else None
    return Registration("C-SPARQL", None, output, register.at, every, regime)


def _name(cursor: Cursor) -> Name:
    """A name as C-SPARQL writes it: a word, which may contain hyphens and digits, or an IRI."""
    first = cursor.peek()
    if first.kind != "word":
        return cursor.name("a name")
    end = cursor.next().end
    while cursor.peek().at == end and (cursor.peek().kind in ("word", "number") or cursor.peek().text == "-"):
        end = cursor.next().end
    return Name(f"<{cursor.query.text[first.at : end]}>", first.at)


def is_registration(cursor: Cursor) -> bool:
    """Whether C-SPARQL follows REGISTER: the word QUERY, or a stream whose name is a word."""
    kind, name = cursor.peek(), cursor.peek(1)
    return kind.matches("QUERY") or (
        kind.matches("STREAM") and name.kind == "word" and not name.matches("AS")
    )


def default_stream(cursor: Cursor, start: Token) -> DefaultStream:
    """What follows FROM STREAM."""
    stream = cursor.name("a stream")
    return DefaultStream(stream, read_window(cursor), start.at)


def named_stream(cursor: Cursor) -> NamedWindow:
    """What follows FROM NAMED STREAM: a window that has the name of its stream, to be read by GRAPH."""
    stream = cursor.name("a stream")
    return NamedWindow(stream, stream, read_window(cursor))
