"""Events as JSON lines `{"at", "op", "stream", "graph", "format"}`, which the reader of JSON lines takes."""

from __future__ import annotations

from itertools import groupby
from json.encoder import encode_basestring

from thalweg.io.graphs import GraphWriter, Statements

_OPS = {"+": "insert", "-": "delete"}


class EventLines(GraphWriter):
    r"""A line for each event; its graph is N-Triples, or N-Quads if statements are in named graphs.

    >>> import io
    >>> from thalweg.algebra.scope import TRIPLE
    >>> from thalweg.io.writers import Answer
    >>> out = io.BytesIO()
    >>> EventLines(out, TRIPLE, Answer(stream="")).statements(
    ...     Statements(["1970-01-01T00:00:00Z"], ["-"], [None], [["<a:s>"], ["<a:p>"], ["<a:o>"]], [0])
    ... )
    >>> out.getvalue().decode()
    '{"at": "1970-01-01T00:00:00Z", "op": "delete", "graph": "<a:s> <a:p> <a:o> .\\n", "format": "nt"}\n'
    """

    holds = "changes"

    def _text(self, statements: Statements) -> str:
        stream = f'"stream": {encode_basestring(self.answer.stream)}, ' if self.answer.stream else ""
        events = statements.events or range(len(statements))
        rows = zip(
            events, statements.times, statements.op, statements.graphs, *statements.triples, strict=True
        )
        lines = []
        for (_, time, op), same in groupby(rows, lambda row: row[:3]):
            quads = [(g, s, p, o) for _, _, _, g, s, p, o in same]
            named = any(quad[0] for quad in quads)
            text = "".join(f"{s} {p} {o} {g} .\n" if g else f"{s} {p} {o} .\n" for g, s, p, o in quads)
            syntax = "nq" if named else "nt"
            lines.append(
                f'{{"at": "{time}", "op": "{_OPS[op]}", {stream}"graph": {encode_basestring(text)}, '
                f'"format": "{syntax}"}}\n'
            )
        return "".join(lines)
