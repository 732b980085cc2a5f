"""The reader of Jelly: frames of triples, quads or graphs, which pyjelly decodes to lines of N-Quads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from google.protobuf.message import DecodeError
from pyjelly import jelly
from pyjelly.parse.decode import Adapter, Decoder, ParserOptions, options_from_frame
from pyjelly.parse.ioutils import delimited_jelly_hint

from thalweg.instants import instant
from thalweg.rdf.arena import Arena, Bytes
from thalweg.rdf.chunk import NO_TIME, Chunk, Reject
from thalweg.rdf.formats import GENERATED_AT, BlankNodes, SequentialReader
from thalweg.rdf.ntriples import LineReader
from thalweg.rdf.prune import Prune
from thalweg.rdf.sequential import OverReader
from thalweg.rdf.stated import Stated, changes, event_chunk

_LARGEST = (1 << 31) - 1
"""Bytes of a frame, at most: the limit of Protocol Buffers."""
_HINT = 3
_NO_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\\ud800-\udfff]')
_IN_LITERAL = re.compile(r'["\\\n\r]')
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_DAMAGE = (
    DecodeError,
    AssertionError,
    LookupError,
    TypeError,
    ValueError,
    NotImplementedError,
    ArithmeticError,
)
"""What the decoder raises for frames that are no Jelly."""


class _Lines(Adapter):  # type: ignore[misc] # pyjelly's classes are compiled
    """Terms as N-Triples text, statements as lines without their ends."""

    def __init__(self, options: ParserOptions) -> None:
        super().__init__(options)
        self._graph = ""

    def iri(self, iri: str) -> str:
        """An IRI; what it must not contain is escaped, so that it is refused where lines are read."""
        if _NO_IRI.search(iri):
            iri = _NO_IRI.sub(lambda match: f"\\u{ord(match[0]):04X}", iri)
        return f"<{iri}>"

    def bnode(self, bnode: str) -> str:
        """A blank node; a label that N-Triples has no way to write is one in hexadecimal digits."""
        if _LABEL.fullmatch(bnode):
            return f"_:{bnode}"
        return f"_:x{bnode.encode('utf-8', 'surrogatepass').hex()}"

    def literal(self, lex: str, language: str | None = None, datatype: str | None = None) -> str:
        """A literal."""
        if _IN_LITERAL.search(lex):
            lex = _IN_LITERAL.sub(lambda match: _ESCAPES[match[0]], lex)
        if language:
            return f'"{lex}"@{_NO_IRI.sub("", language)}'
        return f'"{lex}"^^{self.iri(datatype)}' if datatype else f'"{lex}"'

    def default_graph(self) -> str:
        """No graph."""
        return ""

    def triple(self, terms: Iterable[str]) -> str:
        """A triple, in the graph that is open."""
        return " ".join([*terms, self._graph])

    def quad(self, terms: Iterable[str]) -> str:
        """A quad."""
        return " ".join(terms)

    def graph_start(self, graph_id: str) -> None:
        """A graph begins."""
        self._graph = graph_id

    def graph_end(self) -> None:
        """The graph ends."""
        self._graph = ""

    def namespace_declaration(self, name: str, iri: str) -> None:
        """Names abbreviate nothing here."""

    def quoted_triple(self, terms: Iterable[str]) -> str:
        """A triple term, which is refused where lines are read."""
        return f"<<( {' '.join(terms)} )>>"


@dataclass
class _Frames:
    """Frames as lines of N-Quads."""

    lines: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """The number of lines of each frame."""
    times: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """The place of each frame in its source, from 1."""
    rejects: list[Reject] = field(default_factory=list)


class JellyReader(OverReader):
    """Reads Jelly in pieces that may be cut anywhere. A frame is an event that inserts its statements.

    Its time is in its metadata (`time`), else stated by the time predicate in its default graph, else the number of its
    arrival. Frames build on those before them: after one that cannot be decoded, the rest of the source is refused.
    """

    def __init__(
        self,
        arena: Arena,
        prune: Prune,
        *,
        source: str,
        syntax: str = "jelly",
        blank_nodes: BlankNodes = "event",
        per_event: int = 1,
        time_predicate: bytes = GENERATED_AT,
        stream: str = "",
    ) -> None:
        # Any number but one: blank nodes wait for the scope of their event.
        self._rows = LineReader(
            arena,
            prune,
            syntax="nq",
            source=source,
            blank_nodes=blank_nodes,
            per_event=2,
            time_predicate=time_predicate or GENERATED_AT,
        )
        super().__init__(cast(SequentialReader, self._rows), source)
        self._key = time_predicate.strip(b"<>").decode()
        self._decoder: Decoder | None = None
        self._waiting: list[bytes] = []
        self._size = 0
        self._needed = _HINT
        self._delimited: bool | None = None
        self._frames = 0
        self._broken = False

    def feed(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """The events of the frames that a piece completes."""
        found = _Frames()
        self._waiting.append(bytes(data))
        self._size += len(self._waiting[-1])
        if self._broken:
            self._keep(b"", 0)
        elif self._size >= self._needed:
            self._take(b"".join(self._waiting), found)
        return self._chunk(found)

    def finish(self, *, broken: bool = False) -> Chunk:
        """What is left at the end: the frame of a source that is not delimited, or one that breaks off."""
        found = _Frames()
        rest = b"".join(self._waiting)
        self._keep(b"", 0)
        if rest and not self._broken:
            if self._delimited or delimited_jelly_hint(rest[:_HINT]):
                self._refuse(found, "the source breaks off within a frame")
            else:
                self._decode(rest, found)
        return self._chunk(found)

    def _take(self, data: bytes, found: _Frames) -> None:
        """Decode the frames that are whole."""
        if self._delimited is None:
            self._delimited = delimited_jelly_hint(data[:_HINT])
        if not self._delimited:
            self._keep(data, _LARGEST)
            return
        at = 0
        while not self._broken:
            size, begin = _varint(data, at)
            if size > _LARGEST:
                self._refuse(found, f"a frame of {size:,} bytes: this is not Jelly")
            if begin < 0 or begin + size > len(data):
                self._keep(data[at:], begin - at + size if begin >= 0 else len(data) - at + 1)
                return
            self._decode(data[begin : begin + size], found)
            at = begin + size
        self._keep(b"", 0)

    def _keep(self, rest: bytes, needed: int) -> None:
        self._waiting = [rest] if rest else []
        self._size = len(rest)
        self._needed = needed

    def _refuse(self, found: _Frames, reason: str) -> None:
        self._broken = True
        place = f"frame {self._frames + 1}: " if self._frames or self._decoder else ""
        found.rejects.append(Reject(self.source, 0, 0, f"{place}{reason}", ""))

    def _decode(self, data: bytes, found: _Frames) -> None:
        try:
            frame = jelly.RdfStreamFrame.FromString(data)
            if not frame.rows and not frame.metadata:
                self._frames += 1
                return
            if self._decoder is None and frame.rows:
                if frame.rows[0].WhichOneof("row") != "options":
                    raise ValueError("the first row has no stream options")
                self._decoder = Decoder(_Lines(options_from_frame(frame, delimited=bool(self._delimited))))
            lines = [] if self._decoder is None else [row for row in self._decoder.iter_rows(frame) if row]
        except _DAMAGE as wrong:
            why = str(wrong) or "its rows do not fit its stream options"
            self._refuse(found, f"not Jelly: {why}; what follows depends on it and is not read")
            return
        self._frames += 1
        try:
            time = self._stated_time(frame.metadata)
        except (ValueError, UnicodeDecodeError) as wrong:
            found.rejects.append(Reject(self.source, 0, 0, f"frame {self._frames}: {wrong}", "", "untimed"))
            return
        if lines or time != NO_TIME:
            found.lines += lines
            found.sizes.append(len(lines))
            found.times.append(time)
            found.numbers.append(self._frames)

    def _stated_time(self, metadata: Mapping[str, bytes]) -> int:
        for key in ("time", self._key):
            if key in metadata:
                return instant(metadata[key].decode())
        return NO_TIME

    def _chunk(self, found: _Frames) -> Chunk:
        text = " .\n".join([*found.lines, ""]).encode("utf-8", "surrogatepass")
        chunk = self._rows.read(text, offset=1)
        frame_of = np.repeat(np.arange(len(found.sizes)), found.sizes)
        starts = np.cumsum([0, *found.sizes])
        good = np.ones(len(found.lines), np.bool_)
        good[[reject.line - 1 for reject in chunk.rejects]] = False
        for reject in chunk.rejects:
            frame = int(frame_of[reject.line - 1])
            place = f"frame {found.numbers[frame]}, statement {reject.line - int(starts[frame])}"
            found.rejects.append(Reject(self.source, 0, 0, f"{place}: {reject.reason}", reject.text))
        event = frame_of[good][chunk.number]
        times = np.array(found.times, np.int64)
        stamps = np.flatnonzero((chunk.time != NO_TIME) & (times[event] == NO_TIME))
        stamps = stamps[np.lexsort((chunk.g[stamps] != 0, event[stamps]))]  # those of the default graph first
        stamps = stamps[changes(event[stamps])]
        times[event[stamps]] = chunk.time[stamps]
        # What states the time of a graph is no data of it.
        named = np.zeros(times.size, np.bool_)
        named[event[chunk.g != 0]] = True
        data = np.flatnonzero((chunk.time == NO_TIME) | (chunk.g != 0) | ~named[event])
        rows, event = chunk.picked(data), event[data]
        counts = np.bincount(frame_of[good], minlength=times.size)
        stated = Stated(times, np.ones(times.size, np.int64), counts)
        return event_chunk(rows, event, stated, rejects=found.rejects)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of Protocol Buffers and where it ends; -1 where the data ends before it."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80 or shift > 63:
            return value, at
        shift += 7
    return 0, -1
