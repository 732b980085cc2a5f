"""What users give to a session, checked: a slip is refused with a sentence that says what to give instead."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from thalweg.algebra.query import Query
from thalweg.errors import QueryError, UsageError
from thalweg.instants import Time, duration, instant
from thalweg.lang import parse
from thalweg.schema.axioms import Schema, schema_of
from thalweg.static.data import StaticData
from thalweg.static.document import UNNAMED
from thalweg.static.files import open_document
from thalweg.static.reading import format_of_static, path_of, read_document

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
    found = schema_for(query, schema, rules)
    return query if found is None else query.under(found)


def schema_for(query: Query, schema: object, rules: str | Iterable[str] | None) -> Schema | None:
    """The schema of a query. Its rules are given with it, or the query says an entailment regime."""
    regime = query.regime
    if regime is not None and rules is not None:
        raise UsageError(
            f"the query says its rules itself, as the entailment regime <{regime.iri}>: give none"
        )
    if schema is not None:
        return schema_of(schema, rules if regime is None else regime.rules)
    if regime is not None:
        raise QueryError(
            "UNDER ENTAILMENT REGIME needs a schema, and none is given: schema=, or --schema PATH",
            source=regime.source,
            line=regime.line,
            column=regime.column,
        )
    if rules is not None:
        raise UsageError("rules are those of a schema, and none is given: schema=")
    return None


def static_data_of(given: object, cache: Path | None = None) -> StaticData:
    """Static data as they are given to a run: such data, a path or RDF text for the default graph, a mapping of the
    names of graphs to paths or texts, or a list of these. With a `cache` folder, files are kept there in a binary form.

    >>> static_data_of({"http://ex/g": "<a:x> <a:p> <a:y> ."}).names
    ['http://ex/g']
    """
    if isinstance(given, StaticData):
        return given
    data = StaticData()
    for graph, one in _static_parts(given):
        path = path_of(one)
        format = format_of_static(path, None)
        if path is not None:
            document = open_document(path, format, cache)
        else:
            document = read_document(one, format)  # type: ignore[arg-type]  # what else there is was refused
        data.load(document, graph, replace=False)
    return data


def _static_parts(given: object) -> Iterator[tuple[str, object]]:
    """The names of graphs and what is loaded into them; the default graph has the empty name, or None."""
    if given is None:
        return
    if isinstance(given, Mapping):
        for name, one in given.items():
            yield (graph_name_of(name) if name else UNNAMED), one
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _static_parts(one)
    else:
        yield UNNAMED, given


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
