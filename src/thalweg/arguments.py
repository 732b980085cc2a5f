"""What users give to a session, checked: a slip is refused with a sentence that says what to give instead."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Any

from thalweg.algebra.query import Query
from thalweg.errors import QueryError, UnsupportedError, UsageError
from thalweg.instants import Time, duration, instant
from thalweg.lang import parse
from thalweg.schema.axioms import schema_of

# U+001F separates the name of a stream from its channel, where a runner divides it.
_IRI = re.compile(r'[^<>"{}|^`\\\x00-\x1e\x20]+')
_LONGEST_PATH = 1024


def time_of(value: Time) -> int:
    """Microseconds of a time."""
    try:
        return instant(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{value!r:.80} is not a time: {error}") from None


def span_of(value: int | str) -> int:
    """Microseconds of a duration."""
    try:
        return duration(str(value))
    except ValueError as error:
        raise UsageError(f"{value!r:.80} is not a duration: {error}") from None


def stream_of(value: object) -> str:
    """The name of a stream: its IRI, with or without angle brackets.

    >>> stream_of("<http://ex/s>")
    'http://ex/s'
    """
    return _iri_of(value, "a stream is named by its IRI")


def graph_name_of(value: object) -> str:
    """The IRI of a graph, with or without angle brackets."""
    return _iri_of(value, "name is the IRI of the graph")


def _iri_of(value: object, what: str) -> str:
    if type(value).__name__ == "NamedNode" and hasattr(value, "value"):  # of pyoxigraph
        value = value.value
    if not isinstance(value, str):
        raise UsageError(f'{what}, such as "http://example.org/s", not {_kind(value)}')
    name = str(value).removeprefix("<").removesuffix(">")
    if not _IRI.fullmatch(name):
        raise UsageError(f'{what}, such as "http://example.org/s", not {str(value)[:60]!r}')
    return name


def query_of(text: object, *, source: str, stream: str | None, graphs: Collection[str] = ()) -> Query:
    """The query of what `register` or `explain` is given."""
    if isinstance(text, Query):
        return text
    if isinstance(text, os.PathLike):
        raise UsageError(f"a query is given as its text: {_call(text)}.read_text() has that of the file")
    if hasattr(text, "read"):
        raise UsageError("a query is given as its text, not as an open file: call .read() on it")
    if not isinstance(text, str | bytes):
        raise UsageError(f"a query is given as its text, not as {_kind(text)}")
    try:
        named = None if stream is None else stream_of(stream)
        return parse(text, source=source, stream=named, graphs=graphs)
    except QueryError as error:
        if names_a_file(text):
            shown = text if isinstance(text, str) else os.fsdecode(text)
            raise UsageError(
                f"{shown!r} is the name of a file, and a query is given as its text: open({shown!r}).read()"
            ) from None
        raise error from None


def under_schema(query: Query, schema: object, rules: str | Iterable[str] | None) -> Query:
    """The query under the schema and the rules that are given with it, if any."""
    if schema is None:
        if rules is not None:
            raise UsageError("rules are those of a schema, and none is given: schema=")
        return query
    return query.under(schema_of(schema, rules))


def check_closed(query: Query, static: Collection[str]) -> None:
    """Refuses chains of a transitive property that lead over triples of a stream and static ones."""
    if query.schema is None or not query.schema.transitive:
        return
    for source in query.sources:
        if source.streams and not set(source.graphs).isdisjoint(static):
            raise UnsupportedError(
                "the rule transitive over a default graph of a stream and static data is not supported yet: "
                "load the static data as a named graph"
            )


def names_a_file(text: str | bytes) -> bool:
    """Whether a text is the name of a file that exists."""
    if not 0 < len(text) <= _LONGEST_PATH:
        return False
    try:
        return os.path.isfile(text)
    except ValueError:  # it has a NUL
        return False


def nearest(name: str, known: Iterable[str]) -> str:
    """Which of some streams may be meant by a name that is none of them; empty where there are none.

    >>> nearest("http://ex/t", ["http://ex/s"])
    '; did you mean <http://ex/s>?'
    """
    streams = list(known)
    near = get_close_matches(name, streams, n=1, cutoff=0.8)
    if near:
        return f"; did you mean <{near[0]}>?"
    shown = ", ".join(f"<{one}>" for one in streams[:3])
    more = f" and {len(streams) - 3} more" if len(streams) > 3 else ""
    return f"; queries read {shown}{more}" if streams else ""


def _kind(value: Any) -> str:
    """What a value is, as a message names it."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _call(path: os.PathLike[Any]) -> str:
    return f"Path({os.fspath(path)!r})"
