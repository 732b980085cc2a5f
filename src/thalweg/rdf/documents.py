"""The document reader: Turtle, TriG, JSON-LD, RDF/XML and N3, which are translated to lines and read as such.

Turtle and TriG are translated piece by piece (`rdf.turtle`). A document of another format is held in memory whole, and
a complete parser translates it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyoxigraph as ox

from thalweg.lines import count
from thalweg.rdf.arena import Arena, Bytes
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.formats import FORMATS, GENERATED_AT, BlankNodes
from thalweg.rdf.jsonld import MissingContextError, with_contexts
from thalweg.rdf.labels import Labels
from thalweg.rdf.ntriples import LineReader
from thalweg.rdf.prune import Prune
from thalweg.rdf.texts import Texts
from thalweg.rdf.turtle import Fault, Lines, Translator, parsed, reason_of

_SHOWN = 500
_PARSERS = {
    "turtle": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG,
    "jsonld": ox.RdfFormat.JSON_LD,
    "rdfxml": ox.RdfFormat.RDF_XML,
    "n3": ox.RdfFormat.N3,
}
_IN_PIECES = ("turtle", "trig")


class DocumentReader:
    """Reads documents: each is one event (`per_event` 0), or its statements and graphs are events.

    A document that is one event is refused whole if it is malformed. Else the statements before the malformed one are
    kept (not of JSON-LD, where what comes later may decide what they mean); what comes after it is not read.

    Nodes without a label get labels by the document's source and offset, and by the text where it is given at once, so
    that a document that is read again, by a task of Spark or by another runner, has the same nodes.

    >>> arena = Arena()
    >>> chunk = DocumentReader(arena, Prune.everything(), syntax="turtle", source="doc").read(b"<a:s> a <a:C>, <a:D> .")
    >>> chunk.statements, arena.texts(chunk.o)
    (2, ['<a:C>', '<a:D>'])
    """

    def __init__(
        self,
        arena: Arena,
        prune: Prune,
        *,
        syntax: str,
        source: str,
        blank_nodes: BlankNodes = "event",
        per_event: int = 1,
        time_predicate: bytes = GENERATED_AT,
        contexts: str | None = None,
    ) -> None:
        if syntax not in _PARSERS:
            raise ValueError(f"not a document syntax: {syntax!r}")
        self.arena = arena
        self.syntax = syntax
        self.source = source
        self._contexts = contexts
        self._one_event = per_event == 0
        self._document = _Document(syntax, _label(source), contexts)
        self._held: list[Chunk] = []
        self._own = Arena() if self._one_event else arena
        self._lines = LineReader(
            arena,
            prune,
            syntax="nq",
            source=source,
            blank_nodes=blank_nodes,
            # Blank nodes of a statement wait for the scope of their event: translated lines have no place of their own.
            per_event=2 if per_event else 0,
            time_predicate=time_predicate if FORMATS[syntax].has_graphs else b"",
        )

    @property
    def prune(self) -> Prune:
        """What is kept of the statements."""
        return self._lines.prune

    @prune.setter
    def prune(self, prune: Prune) -> None:
        self._lines.prune = prune

    def read(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """Read a document; `offset` is where it begins in the source."""
        text = bytes(data)
        document = _Document(self.syntax, _label(f"{self.source}\n{offset}", text), self._contexts)
        self._lines.arena = self.arena
        chunk = self._read(document, text, last=True, offset=offset)
        refused = document.fault is not None or (chunk.rejects and self._one_event)
        return replace(self._refused(chunk), whole=False) if refused else chunk

    def feed(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """What the next piece of a document completes: nothing where the document is one event."""
        return self._next(memoryview(data), last=False)  # type: ignore[arg-type]

    def finish(self, *, broken: bool = False) -> Chunk:
        """What the end of a document completes; `broken`: its rest could not be read."""
        chunk = self._next(b"", last=not broken)
        self._document = _Document(self.syntax, _label(self.source), self._contexts)
        if not self._one_event:
            return chunk
        whole = Chunk.concatenate([*self._held, chunk])
        self._held = []
        if broken or whole.rejects:
            whole = self._refused(whole)
        else:
            whole = replace(whole.adopted(whole.records(self._own), self.arena), whole=True)
        self._own = Arena()
        return whole

    def _next(self, data: bytes | memoryview, *, last: bool) -> Chunk:
        if not self._one_event:
            self._lines.arena = self.arena
            return self._read(self._document, data, last=last, offset=0)
        # Ids of an event that is not whole yet are those of an arena of its own.
        self._lines.arena = self._own
        chunk = self._read(self._document, data, last=last, offset=0)
        if last:
            return chunk
        self._held.append(chunk)
        return replace(
            chunk.picked(np.empty(0, np.int64)), statements=0, lines=0, blanks=0, bnodes=0, rejects=()
        )

    def read_texts(self, texts: Sequence[bytes], sources: Sequence[str]) -> Texts:
        """Read several documents."""
        translated: list[bytes] = []
        rejects: list[Reject] = []
        refused: set[int] = set()
        for k, (text, source) in enumerate(zip(texts, sources, strict=True)):
            document = _Document(self.syntax, _label(f"{source}\n0", text), self._contexts)
            lines = [bytes(part.text) for part in document.lines(text, last=True)]
            if document.fault is not None:
                rejects.append(_reject(document.fault, source))
                refused.add(k)
                lines = []
            translated.append(b"".join(lines))
        self._lines.arena = self.arena
        found = self._lines.read_texts(translated, sources)
        rejects += (replace(reject, line=0, column=0) for reject in found.chunk.rejects)
        return replace(found, chunk=replace(found.chunk, rejects=tuple(rejects)), refused=frozenset(refused))

    def _read(self, document: _Document, data: bytes | memoryview, *, last: bool, offset: int) -> Chunk:
        """The chunk of what the next piece of a document completes, with its lines and their places."""
        before = document.line_ends
        chunks: list[Chunk] = []
        for part in document.lines(data, last=last):
            chunk = self._lines.read(part.text, offset=offset)
            rejects = tuple(
                replace(reject, line=line - before, column=column)
                for reject, (line, column) in zip(
                    chunk.rejects, document.places(part, chunk.rejects), strict=True
                )
            )
            chunks.append(replace(chunk, lines=0, rejects=rejects))
        found = Chunk.concatenate(chunks) if chunks else self._lines.read(b"")
        if document.fault is not None and not document.reported:
            document.reported = True
            fault = replace(document.fault, line=document.fault.line - before if document.fault.line else 0)
            found = replace(found, rejects=(*found.rejects, _reject(fault, self.source)))
        return replace(found, lines=document.line_ends - before)

    def _refused(self, chunk: Chunk) -> Chunk:
        """A document of which nothing is taken: its first fault, and no rows."""
        return replace(
            chunk.picked(np.empty(0, np.int64)),
            statements=0,
            blanks=0,
            bnodes=0,
            unnamed=0,
            rejects=chunk.rejects[:1],
            refused=True,
            whole=True,
        )


class _Document:
    """One document under way, in whatever syntax."""

    def __init__(self, syntax: str, label: str, contexts: str | None) -> None:
        self.reported = False
        self._syntax = syntax
        self._label = label
        self._contexts = contexts
        self._translator = Translator(syntax, label) if syntax in _IN_PIECES else None
        self._fault: Fault | None = None
        self._pieces: list[bytes] = []
        self._line_ends = 0

    @property
    def fault(self) -> Fault | None:
        """Why the document is not read on."""
        return self._fault if self._translator is None else self._translator.fault

    @property
    def line_ends(self) -> int:
        """Line ends of the text that is translated."""
        return self._line_ends if self._translator is None else self._translator.lines

    def lines(self, data: bytes | memoryview, *, last: bool) -> Iterator[Lines]:
        """The lines of what the next piece completes."""
        if self._translator is not None:
            yield from self._translator.feed(data, last=last)
            return
        self._pieces.append(bytes(data))
        if not last:
            return
        text = b"".join(self._pieces)
        self._pieces = []
        self._line_ends = count(text)
        yield self._parsed(text)

    def places(self, part: Lines, rejects: Sequence[Reject]) -> list[tuple[int, int]]:
        """The line and column in the document of refused lines of a part; 0 where they are not known."""
        if self._translator is None:
            return [(0, 0)] * len(rejects)
        return [self._translator.place_of(part, reject.line - 1) for reject in rejects]

    def _parsed(self, text: bytes) -> Lines:
        """A whole document by the complete parser."""
        try:
            given = with_contexts(text, self._contexts) if self._syntax == "jsonld" else text
            quads, wrong = parsed(given, _PARSERS[self._syntax])
        except MissingContextError as missing:
            given, quads, wrong = text, [], missing
        if wrong is not None:
            line, column = getattr(wrong, "lineno", None) or 0, getattr(wrong, "offset", None) or 0
            if self._syntax == "jsonld":
                # What comes later may decide what these mean, and places are those of the text with its contexts.
                quads = []
                line, column = (line, column) if given is text else (0, 0)
            shown = text[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]
            self._fault = Fault(line, column, f"not {FORMATS[self._syntax].title}: {reason_of(wrong)}", shown)
        lines = ox.serialize(quads, format=ox.RdfFormat.N_QUADS) or b""
        return Lines(Labels(text, self._label).renamed(lines), np.zeros(len(quads), np.int64))


def _reject(fault: Fault, source: str) -> Reject:
    return Reject(source, fault.line, fault.column, fault.reason, fault.text)


def _label(place: str, text: bytes = b"") -> str:
    """What labels of nodes begin with in a document of a place, of which the text is known or not."""
    digest = hashlib.blake2b(text, digest_size=8, person=b"documents")
    digest.update(place.encode())
    return f"d{digest.hexdigest()}-"
