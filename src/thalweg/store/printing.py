"""Answers as text: SPARQL's formats of results, RDF, and tables for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

import pyoxigraph as ox

from thalweg.errors import UsageError
from thalweg.io.sparql_results import NAMESPACE, Terms, json_term, plain, xml_term
from thalweg.io.writers import csv_rows, tsv_rows

_RESULTS = {
    "json": ox.QueryResultsFormat.JSON,
    "csv": ox.QueryResultsFormat.CSV,
    "tsv": ox.QueryResultsFormat.TSV,
    "xml": ox.QueryResultsFormat.XML,
}
_GRAPHS = {"nt": ox.RdfFormat.N_TRIPLES, "turtle": ox.RdfFormat.TURTLE}
_WIDEST = 60
_KEPT = 1 << 20
"""Terms whose texts are kept while an answer is written, which is in memory anyway."""


@dataclass(frozen=True)
class Solutions:
    """An answer as N-Triples texts, with None where a variable is unbound; of ASK, `truth` is the answer."""

    names: Sequence[str]
    rows: Sequence[Sequence[str | None]]
    truth: bool | None = None
    is_graph: bool = False


def written(answer: Any, format: str | None, *, terminal: bool) -> Iterator[bytes]:
    """An answer in a format; without one, a table on a terminal, else JSON or N-Triples.

    It is one of `Store.ask`, or `Solutions`.
    """
    given: Solutions = answer if isinstance(answer, Solutions) else answer.texts
    format = format or ("table" if terminal else "nt" if given.is_graph else "json")
    if format == "table":
        yield "\n".join(table(given)).encode() + b"\n"
        return
    known: dict[str, Any] = _GRAPHS if given.is_graph else _RESULTS
    if format not in known:
        kind = "a graph" if given.is_graph else "solutions"
        raise UsageError(f"the answer is {kind}, which is written as table, {', '.join(known)}, not {format}")
    text = serialized(given, known[format])
    yield text if text.endswith(b"\n") else text + b"\n"


def serialized(answer: Solutions, format: ox.QueryResultsFormat | ox.RdfFormat | None) -> bytes:
    """An answer in a format of pyoxigraph; without one, JSON or N-Triples."""
    if answer.is_graph:
        lines = "".join(f"{' '.join(map(str, row))} .\n" for row in answer.rows).encode()
        if format is None or format == ox.RdfFormat.N_TRIPLES:
            return lines
        if not isinstance(format, ox.RdfFormat):
            raise UsageError(f"the answer is a graph, and {format} is a format of solutions")
        made = ox.serialize(ox.parse(lines, format=ox.RdfFormat.N_TRIPLES, lenient=True), format=format)
        return made or b""
    if format is not None and not isinstance(format, ox.QueryResultsFormat):
        raise UsageError(f"the answer is solutions, and {format} is a format of graphs")
    if format == ox.QueryResultsFormat.XML:
        return _xml(answer)
    if answer.truth is not None and format in (ox.QueryResultsFormat.CSV, ox.QueryResultsFormat.TSV):
        return b"true\n" if answer.truth else b"false\n"
    if format == ox.QueryResultsFormat.CSV:
        known = Terms(plain, _KEPT)
        rows = ([known(cell) if cell else "" for cell in row] for row in answer.rows)
        return csv_rows([answer.names, *rows])
    if format == ox.QueryResultsFormat.TSV:
        names = [f"?{name}" for name in answer.names]
        return tsv_rows([names, *([cell or "" for cell in row] for row in answer.rows)])
    return _json(answer)


def _json(answer: Solutions) -> bytes:
    if answer.truth is not None:
        return json.dumps({"head": {}, "boolean": answer.truth}).encode()
    known = Terms(json_term, _KEPT)
    keys = [f"{json.dumps(name, ensure_ascii=False)}: " for name in answer.names]
    bindings = ",\n".join(
        "{" + ", ".join([key + known(cell) for key, cell in zip(keys, row, strict=True) if cell]) + "}"
        for row in answer.rows
    )
    head = json.dumps({"vars": list(answer.names)}, ensure_ascii=False)
    return f'{{"head": {head}, "results": {{"bindings": [\n{bindings}\n]}}}}\n'.encode()


def _xml(answer: Solutions) -> bytes:
    known = Terms(xml_term, _KEPT)
    head = "".join(f"<variable name={quoteattr(name)}/>" for name in answer.names)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<sparql xmlns="{NAMESPACE}">',
        f"<head>{head}</head>",
    ]
    if answer.truth is not None:
        lines.append(f"<boolean>{json.dumps(answer.truth)}</boolean>")
    else:
        tags = [f"<binding name={quoteattr(name)}>" for name in answer.names]
        lines.append("<results>")
        for row in answer.rows:
            cells = [f"{tag}{known(cell)}</binding>" for tag, cell in zip(tags, row, strict=True) if cell]
            lines.append(f"<result>{''.join(cells)}</result>")
        lines.append("</results>")
    return "\n".join([*lines, "</sparql>\n"]).encode()


def solutions_of(answer: Any) -> Solutions:
    """An answer of pyoxigraph as texts."""
    if isinstance(answer, ox.QueryBoolean):
        return Solutions((), (), truth=bool(answer))
    if isinstance(answer, ox.QueryTriples):
        rows = [[str(term) for term in triple] for triple in answer]
        return Solutions(("subject", "predicate", "object"), rows, is_graph=True)
    names = [variable.value for variable in answer.variables]
    return Solutions(
        names, [[None if row[name] is None else str(row[name]) for name in names] for row in answer]
    )


def table(answer: Solutions) -> list[str]:
    """The lines of a table for people."""
    if answer.truth is not None:
        return ["yes" if answer.truth else "no"]
    rows = [[cell or "" for cell in row] for row in answer.rows]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(answer.names)
    widths = [
        min(_WIDEST, max(map(len, (name, *cells)))) for name, cells in zip(answer.names, columns, strict=True)
    ]

    def line(cells: Sequence[str]) -> str:
        cut = (
            cell if len(cell) <= width else cell[: width - 3] + "..."
            for cell, width in zip(cells, widths, strict=True)
        )
        return "  ".join(cell.ljust(width) for cell, width in zip(cut, widths, strict=True)).rstrip()

    lines = [line(list(answer.names)), "  ".join("-" * width for width in widths), *map(line, rows)]
    return [*lines, f"({len(rows):,} row{'s' * (len(rows) != 1)})"]
