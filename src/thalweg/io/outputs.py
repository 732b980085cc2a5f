"""The writer for the name of a file, and whether it can hold the answer of a query."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Literal

from thalweg.algebra.query import Query
from thalweg.errors import UsageError
from thalweg.io.graphs import stream_of
from thalweg.io.opening import open_file
from thalweg.io.safety import descriptor_of
from thalweg.io.writers import Answer, Writer
from thalweg.rdf.compression import compression_suffixes, named_compression, without_compression
from thalweg.rdf.formats import Format, writable

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_PREFIXES = re.compile(r"\bPREFIX\s+([A-Za-z][\w.-]*)?:\s*<([^<>\s]*)>", re.IGNORECASE)
_STREAMED = "jsonl"
"""The format of the standard output and of devices, unless one is named."""

_ALSO = {".json": _STREAMED}
"""Suffixes of outputs beside those of the table of formats."""


def open_writer(
    path: Path | None, query: Query, *, format: str | None = None, pretty: bool = False, append: bool = False
) -> Writer:
    """The writer for the name of a file or of a format; without both, JSON lines to the standard output."""
    if pretty:
        from thalweg.io.pretty import Pretty

        return Pretty(sys.stdout.buffer, query.columns, answer_of(query), close=False)
    kind = writer_for(path, format)
    if path is None or str(path) == "-":
        return kind(sys.stdout.buffer, query.columns, answer_of(query), close=False)
    begun = append and path.exists() and path.stat().st_size > 0
    return kind(open_file(path, append), query.columns, answer_of(query, begun=begun))


def answer_of(query: Query, *, begun: bool = False) -> Answer:
    """What writers know of a query's answer."""
    rows: Literal["changes", "reports", "additions"] = "changes"
    if query.per_event or query.operator in ("ISTREAM", "DSTREAM"):
        rows = "additions"
    elif query.operator == "RSTREAM":
        rows = "reports"
    return Answer(stream_of(query), rows, query.ask, prefixes_of(query), begun)


def prefixes_of(query: Query) -> dict[str, str]:
    """The prefixes that a query's text declares; those of names that are relative say nothing to others."""
    found = _PREFIXES.findall(query.text)
    return {prefix: iri for prefix, iri in found if _ABSOLUTE.match(iri)}


def check_output(
    query: Query, path: Path | None, format: str | None = None, *, resumable: bool = False
) -> None:
    """Refuse a file that cannot hold the answer of a query; `resumable` is one that a later run adds to."""
    where = None if path is None or str(path) == "-" else str(path)
    if reason := _refusal(query, writer_for(path, format)):
        raise UsageError(reason, source=where)
    if resumable and where is not None and not writer_for(path, format).appends:
        names = ", ".join(name for name, one in writable().items() if writer_of(one).appends)
        raise UsageError(
            "a run with --checkpoint adds to its output when it continues, and this format is written as a whole: "
            f"choose one of {names}",
            source=where,
        )


def writer_for(path: Path | None, format: str | None = None) -> type[Writer]:
    """The class of writers for the name of a file or of a format; another name is refused with the list."""
    return writer_of(output_format(path, format))


def writer_of(format: Format) -> type[Writer]:
    """The class of writers of a format."""
    found = format.writer()
    assert issubclass(found, Writer)
    return found


def output_format(path: Path | None, format: str | None = None) -> Format:
    """The format of an output: that of the name, or of the suffix; devices and pipes get JSON lines."""
    known = writable()
    if format is not None:
        if format not in known:
            raise UsageError(f"--out-format is one of {', '.join(known)}, not {format!r}")
        found = known[format]
    elif path is None or str(path) == "-" or _is_device(path):
        found = known[_STREAMED]
    else:
        suffix = os.path.splitext(without_compression(path.name))[1]
        by_suffix = {suffix: one for one in known.values() for suffix in one.suffixes}
        by_suffix |= {suffix: known[name] for suffix, name in _ALSO.items()}
        if suffix not in by_suffix:
            raise UsageError(
                f"unknown output format: the name ends in {', '.join(by_suffix)} (text also with "
                f"{' or '.join(compression_suffixes())}), or --out-format names it: {', '.join(known)}",
                source=str(path),
            )
        found = by_suffix[suffix]
    if path is not None and named_compression(path) and not writer_of(found).is_text:
        raise UsageError(
            f"{found.title} is compressed within: leave the suffix {path.suffix} out", source=str(path)
        )
    return found


def _is_device(path: Path) -> bool:
    return not path.suffix and (path.is_char_device() or path.is_fifo() or descriptor_of(path) is not None)


def _refusal(query: Query, kind: type[Writer]) -> str | None:
    if kind.of == "construct" and query.template is None:
        return "triples are written of a CONSTRUCT only: the rows of a SELECT go to .jsonl, .csv, .parquet or .srj"
    if kind.of in ("select", "solutions") and query.template is not None:
        return "a CONSTRUCT makes triples: write them to .ttl, .nq, .rdfp or .jsonl"
    if kind.of == "solutions" and query.ask:
        return "SPARQL's CSV and TSV have no form for yes and no: write .srj, .srx or .jsonl"
    if kind.of != "construct":
        return None
    if kind.holds == "additions" and not query.per_event and query.operator not in ("RSTREAM", "ISTREAM"):
        return (
            "a file of triples cannot take one back: write REGISTER ISTREAM <out> AS (what comes) or REGISTER RSTREAM "
            "<out> AS (all of it, at each report) before CONSTRUCT, or ask with [NOW], or name a .rdfp or .jsonl file"
        )
    if kind.holds == "changes" and query.operator in ("RSTREAM", "DSTREAM"):
        return (
            f"a patch holds changes, and {query.operator} gives none: leave it out, or write REGISTER ISTREAM, "
            "or name a .nq or .jsonl file"
        )
    if query.reports_empty and kind.holds != "answer":
        return "an empty answer has no triples: leave WITH EMPTY out"
    if not _ABSOLUTE.match(stream_of(query)):
        return (
            f"graphs are called by the name of the stream, and <{query.output}> is relative: make it absolute"
        )
    return None
