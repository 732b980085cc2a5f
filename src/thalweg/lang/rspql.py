"""RSP-QL: `REGISTER RSTREAM <out> AS`, `FROM NAMED WINDOW <w> ON STREAM <s> [..]`, `WINDOW <w> { }`."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.algebra.query import OPERATORS
from thalweg.algebra.windows import Window
from thalweg.lang.clauses import Cursor, Name, Token
from thalweg.lang.windows import read_window


@dataclass(frozen=True, slots=True)
class Registration:
    """The first line of a registered query: which view of its answer goes to which stream."""

    language: str
    operator: str | None
    output: Name | None
    at: int
    every: int | None = None
    """The distance of computations, where COMPUTED EVERY sets it."""
    regime: Name | None = None
    """The entailment regime."""


@dataclass(frozen=True, slots=True)
class NamedWindow:
    """A window that WINDOW blocks read by its name."""

    name: Name
    stream: Name
    window: Window


def registration(cursor: Cursor, register: Token) -> Registration:
    """What follows REGISTER, if it is RSP-QL: an operator or the word STREAM, and the output's name."""
    kind = cursor.expect(*OPERATORS, "STREAM")
    output = cursor.name("the output stream")
    regime = entailment(cursor) if cursor.take("UNDER") else None
    cursor.expect("AS")
    operator = None if kind.matches("STREAM") else kind.text.upper()
    return Registration("RSP-QL", operator, output, register.at, regime=regime)


def entailment(cursor: Cursor) -> Name:
    """What follows UNDER: the entailment regime."""
    cursor.expect("ENTAILMENT")
    cursor.expect("REGIME")
    return cursor.name("an entailment regime")


def named_window(cursor: Cursor) -> NamedWindow:
    """What follows FROM NAMED WINDOW: the name, or in the first drafts of RSP-QL a name behind the window, after AS."""
    name = None if cursor.peek().matches("ON") else cursor.name("the window's name")
    cursor.expect("ON")
    cursor.take("STREAM")
    stream = cursor.name("a stream")
    window = read_window(cursor)
    if name is None:
        cursor.expect("AS")
        name = cursor.name("the window's name")
    return NamedWindow(name, stream, window)


def window_block(cursor: Cursor, keyword: Token) -> int:
    """WINDOW <w> { }: becomes GRAPH <w> { } at the same place, which is given back."""
    if cursor.peek().kind == "var":
        cursor.next()
    else:
        cursor.name("a window's name")
    if not cursor.peek().matches("{"):
        cursor.expect("{")
    cursor.overwrite(keyword, "GRAPH")
    return keyword.at
