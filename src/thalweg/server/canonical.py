"""The canonical form of a query: what two queries have in common that differ only in the names of their variables."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from thalweg.algebra.query import RANK, Query
from thalweg.arguments import schema_for
from thalweg.errors import ThalwegError
from thalweg.lang import parse
from thalweg.schema.axioms import Schema

# What may hide a question mark: strings, IRIs, comments. The path operator `?` is followed by no letter.
_TOKENS = re.compile(
    r'"""(?:"{0,2}(?:[^"\\]|\\.))*"""'
    r"|'''(?:'{0,2}(?:[^'\\]|\\.))*'''"
    r'|"(?:[^"\\\r\n]|\\.)*"'
    r"|'(?:[^'\\\r\n]|\\.)*'"
    r'|<[^<>"{}|^`\\\x00-\x20]*>'
    r"|\#[^\r\n]*"
    r"|\\."
    r"|[?$](?P<name>\w[\w\u00b7\u0300-\u036f\u203f\u2040]*)",
    re.DOTALL,
)
_ALL = re.compile(r"SELECT\b[^{}]*?\*", re.IGNORECASE)
_WHERE = frozenset({"line", "column"})


@dataclass(frozen=True)
class Canonical:
    """A query with canonical names, what identifies it, and its columns by the names of the one who asked."""

    query: Query
    key: Hashable
    columns: tuple[tuple[str, str], ...]
    """Pairs (own name, canonical name) in the order of the own columns."""


def canonical(
    text: str, *, stream: str | None, graphs: list[str], schema: bytes | None = None, rules: str | None = None
) -> Canonical:
    """The canonical form of a text, under the text of a schema. Errors have the positions and names of the text."""

    def read(text: str) -> Query:
        query = parse(text, stream=stream, graphs=graphs)
        closed = schema_for(query, schema, rules)
        return query if closed is None else query.under(closed)

    renamed, names = _renamed(text)
    try:
        query = read(renamed)
    except ThalwegError:
        # Either this raises the error with the places and names of the text, or a name cannot be changed.
        query, names = read(text), {}
    back = {new: old for old, new in names.items()}
    own = tuple(back.get(name, name) for name in query.columns)
    if names and _ALL.search(text):  # the columns of SELECT * have an order of their own
        own = read(text).columns
    pairs = {back.get(name, name): name for name in query.columns}
    if set(pairs) != set(own):  # a name that cannot be changed without changing the query
        query, pairs = read(text), {name: name for name in own}
    key = query.recursing(lambda: _shape(query))
    return Canonical(query, key, tuple((name, pairs[name]) for name in own))


def _renamed(text: str) -> tuple[str, dict[str, str]]:
    """The text with variables numbered in the order in which they come, and their new names by the old ones."""
    names: dict[str, str] = {}

    def new(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None or name == RANK:  # the name decides whether rows have a rank
            return found[0]
        return "?" + names.setdefault(name, f"v{len(names)}")

    return _TOKENS.sub(new, text), names


def _shape(value: Any) -> Hashable:
    """A value without the places where its parts are written."""
    if isinstance(value, Schema):
        return value.as_text()
    if is_dataclass(value) and not isinstance(value, type):
        skipped = {"text"} if isinstance(value, Query) else _WHERE
        parts = (_shape(getattr(value, one.name)) for one in fields(value) if one.name not in skipped)
        return (type(value).__name__, *parts)
    if isinstance(value, tuple | list):
        return tuple(map(_shape, value))
    if isinstance(value, dict):
        return tuple((_shape(key), _shape(one)) for key, one in value.items())
    return value if isinstance(value, Hashable) else repr(value)
