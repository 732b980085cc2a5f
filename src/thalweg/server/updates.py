"""Updates of the SPARQL Protocol: data that are inserted and deleted are events of the stream that is their graph."""

from __future__ import annotations

import pyoxigraph as ox

from thalweg.errors import QueryError, UsageError
from thalweg.rdf.update import operations_of


def stream_of_update(text: str, given: str | None) -> str:
    """The stream of an update: the one that is `given`, or that all of its data name by GRAPH.

    >>> stream_of_update("INSERT DATA { GRAPH <http://ex/s> { <http://ex/a> <http://ex/p> 1 } }", None)
    'http://ex/s'
    """
    graphs = _graphs(text)
    names = {name for name in graphs if name is not None}
    if given is not None:
        names.add(given)
    if len(names) > 1:
        raise UsageError(
            f"an update has events of one stream, and this one names {', '.join(f'<{n}>' for n in sorted(names))}:"
            " send them apart"
        )
    if not names or (given is None and None in graphs):
        raise UsageError("data have the stream of their GRAPH, or that of the parameter stream: name it")
    return names.pop()


def _graphs(text: str) -> set[str | None]:
    """The graphs of an update's data; None is the default graph. What is not data is refused."""
    refused: list[tuple[int, str]] = []
    found: set[str | None] = set()
    for operation in operations_of(text, lambda at, reason: refused.append((at, reason))):
        try:
            for quad in ox.parse(operation.data.encode(), ox.RdfFormat.TRIG, base_iri="urn:x:", lenient=True):
                name = quad.graph_name
                found.add(name.value if isinstance(name, ox.NamedNode) else None)
        except (SyntaxError, ValueError):
            continue  # the reader of events says where
    if refused:
        at, reason = refused[0]
        line = text.count("\n", 0, at) + 1
        raise QueryError(reason, source="update", line=line, column=at - text.rfind("\n", 0, at))
    return found
