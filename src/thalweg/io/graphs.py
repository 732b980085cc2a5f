"""Answers of CONSTRUCT as RDF: N-Triples, or N-Quads that are a stream of graph events for whoever reads them.

Neither has a sign, so that both are for answers of which nothing is taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO

from thalweg.algebra.query import Query
from thalweg.algebra.scope import TRIPLE
from thalweg.algebra.terms import XSD
from thalweg.io.writers import Writer
from thalweg.rdf.ntriples import GENERATED_AT

ANSWER = "urn:thalweg:answer"
"""The stream of an answer whose query names none."""

_DATE_TIME = f"<{XSD}dateTime>"


def stream_of(query: Query) -> str:
    """The IRI of the stream that a query makes."""
    return query.output or ANSWER


def name_of(stream: str, time: str) -> str:
    """The graph of an instant, as a term.

    >>> name_of("http://ex/out", "1970-01-01T00:00:01Z")
    '<http://ex/out#1970-01-01T00:00:01Z>'
    """
    return f"<{stream}{'-' if '#' in stream else '#'}{time}>"


def events_of(
    stream: str, times: Sequence[str], graphs: Sequence[str | None], triples: Sequence[Sequence[str]]
) -> Iterator[tuple[int, str]]:
    """The graphs of an answer that is given in columns: the place of the first row of each, and its lines.

    A line of the default graph says the time before the triples come. Rows of one event may be mixed with others.
    """
    found: dict[tuple[str, str], list[str]] = {}
    first: list[int] = []
    for k, (time, graph, s, p, o) in enumerate(zip(times, graphs, *triples, strict=True)):
        name = graph or name_of(stream, time)
        lines = found.get((time, name))
        if lines is None:
            first.append(k)
            lines = found[time, name] = [f'{name} {GENERATED_AT.decode()} "{time}"^^{_DATE_TIME} .\n']
        lines.append(f"{s} {p} {o} {name} .\n")
    for k, lines in zip(first, found.values(), strict=True):
        yield k, "".join(lines)


class NTriples(Writer):
    r"""The triples alone.

    >>> import io
    >>> out = io.BytesIO()
    >>> NTriples(out, TRIPLE).columns([0], ["+"], dict(zip(TRIPLE, [["<a:s>"], ["<a:p>"], ['"o"']])))
    >>> out.getvalue().decode()
    '<a:s> <a:p> "o" .\n'
    """

    def _format(
        self,
        times: Sequence[str],
        op: Sequence[str],
        bindings: Mapping[str, Sequence[str]],
        graph: Sequence[str | None] | None,
    ) -> bytes:
        rows = zip(*(bindings[name] for name in TRIPLE), strict=True)
        return "".join(f"{s} {p} {o} .\n" for s, p, o in rows).encode()


class NQuads(Writer):
    """The triples of each instant, or of each event for [NOW], in a graph of their own that has its time."""

    def __init__(self, out: IO[bytes], names: Sequence[str], stream: str = ANSWER) -> None:
        super().__init__(out, names)
        self._stream = stream

    def _format(
        self,
        times: Sequence[str],
        op: Sequence[str],
        bindings: Mapping[str, Sequence[str]],
        graph: Sequence[str | None] | None,
    ) -> bytes:
        triples = [bindings[name] for name in TRIPLE]
        events = events_of(self._stream, times, graph or [None] * len(times), triples)
        return "".join(lines for _, lines in events).encode()
