"""The writer for the name of a file, and whether it can hold the answer of a query."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from thalweg.algebra.query import Query
from thalweg.errors import UsageError
from thalweg.io.graphs import NQuads, NTriples, stream_of
from thalweg.io.safety import descriptor_of
from thalweg.io.writers import Csv, JsonLines, Writer, open_file
from thalweg.rdf.compression import without_gzip

_JSON = (".jsonl", ".ndjson", ".json")
_KINDS = (*_JSON, ".csv", ".nq", ".nt")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")


def open_writer(path: Path | None, query: Query, *, append: bool = False) -> Writer:
    """The writer for the name of a file; without a name, JSON lines to the standard output."""
    if path is None or str(path) == "-":
        return JsonLines(sys.stdout.buffer, query.columns, close=False)
    kind = _kind(path)
    begun = append and path.exists() and path.stat().st_size > 0
    out = open_file(path, append)
    if kind == ".nq":
        return NQuads(out, query.columns, stream_of(query))
    if kind == ".nt":
        return NTriples(out, query.columns)
    return JsonLines(out, query.columns) if kind in _JSON else Csv(out, query.columns, header=not begun)


def check_output(query: Query, path: Path | None) -> None:
    """Refuse a file that cannot hold the answer of a query."""
    if path is None or str(path) == "-":
        return
    if reason := _refusal(query, _kind(path)):
        raise UsageError(reason, source=str(path))


def _kind(path: Path) -> str:
    if not path.suffix and (path.is_char_device() or path.is_fifo() or descriptor_of(path) is not None):
        return ".jsonl"
    return Path(without_gzip(path.name)).suffix


def _refusal(query: Query, kind: str) -> str | None:
    if kind not in _KINDS:
        return f"unknown output format: the name ends in {', '.join(_KINDS[:-1])} or {_KINDS[-1]}"
    if kind not in (".nq", ".nt"):
        return None
    if query.template is None:
        return "triples are written of a CONSTRUCT only: the rows of a SELECT go to .jsonl or .csv"
    if not query.per_event and query.operator not in ("RSTREAM", "ISTREAM"):
        return (
            "a file of triples cannot take one back: write REGISTER ISTREAM <out> AS (what comes) or REGISTER RSTREAM "
            "<out> AS (all of it, at each report) before CONSTRUCT, or ask with [NOW], or name a .jsonl file"
        )
    if query.reports_empty:
        return "an empty answer has no triples: leave WITH EMPTY out"
    if not _ABSOLUTE.match(stream_of(query)):
        return (
            f"graphs are called by the name of the stream, and <{query.output}> is relative: make it absolute"
        )
    return None
