"""The reader of JSON lines: each line is an event `{"at", "op", "stream", "graph", "format"}`."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from thalweg.instants import instant
from thalweg.rdf.arena import Arena, Bytes, Ids
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject
from thalweg.rdf.formats import FORMATS, GENERATED_AT, BlankNodes
from thalweg.rdf.prune import Prune
from thalweg.rdf.stated import OPS, Stated, event_chunk, shown
from thalweg.rdf.texts import Texts, ended

_TRIPLE = ("subject", "predicate", "object")
_END = re.compile(rb"\r\n?|\n")
_NO_FORMAT = ""
"""The format of a graph that names none: Turtle, of which N-Triples is a part."""


@dataclass
class _Read:
    """The events of lines as they are found, and what is refused of them."""

    source: str
    lines: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Where the line of each event begins in its source: nodes without a label are named by it."""
    times: list[int] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)
    graphs: list[bytes] = field(default_factory=list)
    formats: list[str] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    left_out: int = 0

    def refuse(self, line: int, column: int, reason: str, text: bytes) -> None:
        self.rejects.append(Reject(self.source, line, column, reason, shown(text)))


class JsonLinesReader:
    r"""Reads lines of JSON. A line that is no event is refused, those around it are read.

    `at` is milliseconds or the text of an xsd:dateTime; without it, an event has the number of its arrival. `graph` is
    a text in the format `format`, else in Turtle, or JSON-LD as JSON. Other keys say nothing. Lines of other streams
    are left out and counted. The rows that a CONSTRUCT query writes are such lines, too: their graph is one triple.

    >>> arena = Arena()
    >>> reader = JsonLinesReader(arena, Prune.everything(), source="doc")
    >>> chunk = reader.read(b'{"at": 5, "op": "delete", "graph": "<a:s> <a:p> 1 ."}\n')
    >>> arena.text(int(chunk.s[0])), int(chunk.op[0]), int(chunk.time[0])
    ('<a:s>', -1, 5000)
    """

    def __init__(
        self,
        arena: Arena,
        prune: Prune,
        *,
        source: str,
        syntax: str = "jsonl",
        blank_nodes: BlankNodes = "event",
        per_event: int = 1,
        time_predicate: bytes = GENERATED_AT,
        stream: str = "",
    ) -> None:
        self.arena = arena
        self.prune = prune
        self.source = source
        self.stream = stream
        self._blank_nodes: BlankNodes = blank_nodes

    def read(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """The events of whole lines; the last may lack its end."""
        read = _Read(self.source)
        text = bytes(data)
        number = 0
        for number, (start, line) in enumerate(_lines(text), 1):
            if offset + start == 0:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if line.strip(b" \t"):
                self._take(read, number, offset + start, line)
        return self._chunk(read, number)

    def _take(self, read: _Read, number: int, start: int, line: bytes) -> None:
        try:
            event = json.loads(line)
        except json.JSONDecodeError as wrong:
            read.refuse(number, wrong.colno, f"not JSON: {wrong.msg}", line)
            return
        except UnicodeDecodeError:
            read.refuse(number, 0, "not JSON: the text is not in UTF-8", line)
            return
        except (RecursionError, ValueError) as wrong:  # an integer of thousands of digits is a ValueError
            deep = isinstance(wrong, RecursionError)
            read.refuse(
                number, 0, f"not JSON that can be read: {'nested too deeply' if deep else wrong}", line
            )
            return
        try:
            if not isinstance(event, dict):
                raise ValueError(
                    "not an event: expected an object with the keys at, op, stream, graph, format"
                )
            stream = event.get("stream")
            if stream is not None and not isinstance(stream, str):
                raise ValueError(f"stream is a text, not {_kind(stream)}")
            if stream is not None and self.stream and stream.strip("<>") != self.stream:
                read.left_out += 1
                return
            time, op = _time(event.get("at")), _op(event.get("op"))
            graph, format = _graph(event)
        except (ValueError, RecursionError) as wrong:
            read.refuse(number, 0, str(wrong), line)
            return
        read.starts.append(start)
        read.lines.append(number)
        read.times.append(time)
        read.ops.append(op)
        read.graphs.append(graph)
        read.formats.append(format)

    def _chunk(self, read: _Read, lines: int) -> Chunk:
        refused = np.zeros(len(read.lines), np.bool_)
        statements = np.zeros(len(read.lines), np.int64)
        parts: list[tuple[Ids, Chunk]] = []
        for format in dict.fromkeys(read.formats):
            places = np.array([k for k, name in enumerate(read.formats) if name == format], np.int64)
            parts += self._graphs(read, format, places, refused, statements)
        event = np.concatenate([np.empty(0, np.int64), *(part[0] for part in parts)])
        rows = Chunk.concatenate([_nothing(self.source), *(part[1] for part in parts)])
        good = ~refused
        renumbered = np.cumsum(good) - 1
        kept = np.flatnonzero(good[event])
        stated = Stated(
            np.array(read.times, np.int64)[good], np.array(read.ops, np.int64)[good], statements[good]
        )
        rejects = sorted(read.rejects, key=lambda reject: reject.line)
        return event_chunk(
            rows.picked(kept),
            renumbered[event[kept]],
            stated,
            lines=lines,
            rejects=rejects,
            left_out=read.left_out,
        )

    def _graphs(
        self, read: _Read, format: str, places: Ids, refused: np.ndarray, statements: Ids
    ) -> Iterator[tuple[Ids, Chunk]]:
        """The rows of the graphs of one format, each with its event."""
        if format == _NO_FORMAT:
            # Most are N-Triples, which are read all at once; what these cannot say is read as Turtle.
            found = self._texts("nt", read, places)
            odd = {_start(reject) for reject in found.chunk.rejects}
            turtle = np.array([read.starts[k] in odd for k in places.tolist()], np.bool_)
            plain = np.flatnonzero(~turtle[found.text])
            statements[places] = np.where(turtle, 0, found.statements)
            chunk = found.chunk.picked(plain)
            yield (
                places[found.text[plain]],
                replace(chunk, statements=int(statements[places].sum()), rejects=()),
            )
            if turtle.any():
                yield from self._graphs(read, "turtle", places[turtle], refused, statements)
            return
        found = self._texts(format, read, places)
        refused[places[list(found.refused)]] = True
        statements[places] = found.statements
        for reject in found.chunk.rejects:
            k = bisect_left(read.starts, _start(reject))
            at = f"line {reject.line}, column {reject.column} of " if reject.line else ""
            read.refuse(read.lines[k], 0, f"{at}graph: {reject.reason}", reject.text.encode())
        yield places[found.text], replace(found.chunk, rejects=())

    def _texts(self, format: str, read: _Read, places: Ids) -> Texts:
        reader = FORMATS[format].reader(
            self.arena,
            self.prune,
            source=self.source,
            blank_nodes=self._blank_nodes,
            per_event=2,  # any number but one: blank nodes wait for the scope of their event
            time_predicate=b"",
        )
        texts = [ended(read.graphs[k]) for k in places.tolist()]
        # Nodes without a label are named by where their graph begins, and not by the piece that it is in.
        sources = [f"{read.starts[place]} {self.source}" for place in places.tolist()]
        return reader.read_texts(texts, sources)


def _start(reject: Reject) -> int:
    """Where the line begins whose graph was refused."""
    return int(reject.source.split(" ", 1)[0])


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines, which end as those of N-Triples do, and where they begin."""
    start = 0
    for end in _END.finditer(data):
        yield start, data[start : end.start()]
        start = end.end()
    if start < len(data):
        yield start, data[start:]


def _time(at: Any) -> int:
    return NO_TIME if at is None else instant(at)


def _op(op: Any) -> int:
    if not isinstance(op, str | None) or op not in OPS:
        raise ValueError(f"op is insert or delete, not {str(op)[:60]!r}")
    return OPS[op]


def _graph(event: dict[str, Any]) -> tuple[bytes, str]:
    """The text of an event's graph, and its format."""
    if "bindings" in event:
        row = event["bindings"]
        if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in _TRIPLE):
            raise ValueError("bindings are those of a CONSTRUCT query: subject, predicate and object")
        return " ".join(row[name] for name in _TRIPLE).encode() + b" .", "nt"
    graph, format = event.get("graph"), event.get("format", _NO_FORMAT)
    if not isinstance(format, str) or (format and (format not in FORMATS or FORMATS[format].has_events)):
        known = ", ".join(name for name, known in FORMATS.items() if not known.has_events)
        raise ValueError(f"format is one of {known}, not {str(format)[:60]!r}")
    if isinstance(graph, dict | list) and format in (_NO_FORMAT, "jsonld"):
        return json.dumps(graph).encode(), "jsonld"
    if not isinstance(graph, str):
        missing = "there is no graph" if graph is None else f"graph is a text, not {_kind(graph)}"
        raise ValueError(missing)
    return graph.encode("utf-8", "surrogatepass"), format


def _kind(value: object) -> str:
    names: Sequence[tuple[type, str]] = ((bool, "a boolean"), (int, "a number"), (float, "a number"))
    return next((name for kind, name in names if isinstance(value, kind)), f"a {type(value).__name__}")


def _nothing(source: str) -> Chunk:
    none = np.empty(0, np.int64)
    return Chunk(0, 0, none, none, none, none, none, none, source=source)
