"""What `push` takes as a graph: tuples of terms, graphs of rdflib and pyoxigraph. All become lines for a reader."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pyoxigraph as ox

from thalweg.arguments import names_a_file
from thalweg.errors import UsageError
from thalweg.rdf.formats import FORMATS
from thalweg.terms import text_of

_PLACES = ("subject", "predicate", "object", "graph")
_OTHERS = {
    "turtle": ox.RdfFormat.TURTLE,
    "nq": ox.RdfFormat.N_QUADS,
    "trig": ox.RdfFormat.TRIG,
    "jsonld": ox.RdfFormat.JSON_LD,
    "rdfxml": ox.RdfFormat.RDF_XML,
}
_MOST_TRIED = 1 << 20


def lines_of(graph: Any) -> tuple[bytes, str]:
    """A graph that is no text as lines, and their format: N-Triples, or N-Quads where it has named graphs.

    >>> lines_of([("http://ex/a", "http://ex/p", 5)])
    (b'<http://ex/a> <http://ex/p> "5"^^<http://www.w3.org/2001/XMLSchema#integer> .\\n', 'nt')
    """
    if isinstance(graph, dict | os.PathLike) or hasattr(graph, "read"):
        raise UsageError(_not_a_graph(graph))
    if isinstance(graph, ox.Triple | ox.Quad) or _is_statement(graph):
        graph = [graph]
    module = type(graph).__module__.partition(".")[0]
    if module == "rdflib" and hasattr(graph, "triples"):
        graph = graph.quads() if getattr(graph, "context_aware", False) and hasattr(graph, "quads") else graph
    try:
        statements = iter(graph)
    except TypeError:
        raise UsageError(_not_a_graph(graph)) from None
    lines: list[str] = []
    is_quads = False
    for statement in statements:
        line, named = _line(statement, len(lines))
        lines.append(line)
        is_quads |= named
    return "".join(lines).encode("utf-8", "surrogatepass"), "nq" if is_quads else "nt"


def _is_statement(graph: Any) -> bool:
    """Whether a tuple is a statement, and not some of them."""
    return (
        isinstance(graph, tuple)
        and len(graph) in (3, 4)
        and not isinstance(graph[0], tuple | list | ox.Triple | ox.Quad)
    )


def _line(statement: Any, number: int) -> tuple[str, bool]:
    """A statement as a line, and whether it is in a named graph."""
    if isinstance(statement, ox.Triple):
        return f"{statement} .\n", False
    if isinstance(statement, ox.Quad):
        named = not isinstance(statement.graph_name, ox.DefaultGraph)
        return f"{statement if named else statement.triple} .\n", named
    if not isinstance(statement, tuple | list) or len(statement) not in (3, 4):
        raise UsageError(
            f"statement {number + 1} of the graph is {statement!r:.60}, and not a tuple (subject, predicate, object)"
        )
    if len(statement) == 3:
        s, p, o = statement
        return f"{text_of(s, 'subject')} {text_of(p, 'predicate')} {text_of(o)} .\n", False
    context = _graph_of(statement[3])
    parts = [text_of(term, place) for term, place in zip(statement[:3], _PLACES, strict=False)]
    return f"{' '.join(parts)}{f' {context}' if context else ''} .\n", bool(context)


def _graph_of(context: Any) -> str:
    """The text of a graph's name; empty for the default graph."""
    context = getattr(context, "identifier", context)  # of rdflib
    if context is None or isinstance(context, ox.DefaultGraph) or str(context) == "urn:x-rdflib:default":
        return ""
    return text_of(context, "graph")


def _not_a_graph(graph: Any) -> str:
    takes = "push takes a graph as text, as a list of tuples (subject, predicate, object), or from rdflib or pyoxigraph"
    if isinstance(graph, os.PathLike):
        return f"{takes}, not a path: give its .read_text()"
    if hasattr(graph, "read"):
        return f"{takes}, not an open file: call .read() on it"
    return f"{takes}, not {'None' if graph is None else f'a value of type {type(graph).__name__}'}"


def likely_cause(text: str | bytes, format: str) -> str:
    """Why a text may be unreadable in a format, as the end of a sentence; empty where that is not plain."""
    if names_a_file(text):
        return ": it is the name of a file, and push takes the text"
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
    if not data.strip() or len(data) > _MOST_TRIED:
        return ""
    for name, parser in _OTHERS.items():
        if name != format and _parses(data, parser):
            return f': it is {FORMATS[name].title}, give format="{name}"'
    without_dot = data.rstrip()
    if (
        format == "nt"
        and not without_dot.endswith(b".")
        and _parses(without_dot + b" .", ox.RdfFormat.N_TRIPLES)
    ):
        return ": a statement ends with a dot"
    return ""


def _parses(data: bytes, format: ox.RdfFormat) -> bool:
    try:
        return any(True for _ in _all(ox.parse(data, format)))
    except (SyntaxError, ValueError):
        return False


def _all(statements: Iterable[ox.Quad]) -> Iterator[ox.Quad]:
    """Statements, once all of them have been read."""
    yield from list(statements)
