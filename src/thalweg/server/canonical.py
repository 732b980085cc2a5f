"""The canonical form of a query: what two queries have in common that differ only in the names of their variables."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from thalweg.algebra.query import RANK, Query
from thalweg.arguments import schema_for
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
    own = parse(text, stream=stream, graphs=graphs)
    closed = schema_for(own, schema, rules)
    renamed, names = _renamed(text)
    query = own
    if names:
        query = parse(renamed, stream=stream, graphs=graphs)
    if closed is not None:
        query = query.under(closed)
    back = {new: old for old, new in names.items()}
    own_names = set(own.columns)
    pairs = {back.get(name, name): name for name in query.columns}
    if set(pairs) != own_names:  # a name that cannot be changed without changing the query
        query, pairs = own if closed is None else own.under(closed), {name: name for name in own.columns}
    key = query.recursing(lambda: _shape(query))
    return Canonical(query, key, tuple((name, pairs[name]) for name in own.columns))


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
