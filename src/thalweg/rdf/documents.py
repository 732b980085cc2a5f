"""The document reader: Turtle, TriG, JSON-LD, RDF/XML and N3, which a complete parser translates to lines."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

import pyoxigraph as ox

from thalweg.lines import count
from thalweg.rdf.arena import Arena, Bytes
from thalweg.rdf.chunk import Chunk, Reject
from thalweg.rdf.formats import FORMATS, GENERATED_AT, BlankNodes
from thalweg.rdf.ntriples import LineReader
from thalweg.rdf.prune import Prune
from thalweg.rdf.texts import Texts

_SHOWN = 500
_PARSERS = {
    "turtle": ox.RdfFormat.TURTLE,
    "trig": ox.RdfFormat.TRIG,
    "jsonld": ox.RdfFormat.JSON_LD,
    "rdfxml": ox.RdfFormat.RDF_XML,
    "n3": ox.RdfFormat.N3,
}
# The parser gives random labels of this form to nodes without a label.
_LABELS = re.compile(rb"_:([0-9a-f]{16,32})\b")
_LABELLED = re.compile(rb"[0-9a-f]{16,}")


class DocumentReader:
    """Reads whole documents; one that is malformed is refused whole.

    Nodes without a label get labels by the document, its source and its offset, so that a document that is read again,
    by a task of Spark or by another runner, has the same nodes.

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
        self.syntax = syntax
        self.source = source
        self._one_event = per_event == 0
        self._pieces: list[bytes] = []
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
    def arena(self) -> Arena:
        """The arena of the ids."""
        return self._lines.arena

    @arena.setter
    def arena(self, arena: Arena) -> None:
        self._lines.arena = arena

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
        lines, refused = self._translated(text, self.source, offset)
        chunk = self._lines.read(lines, offset=offset)
        rejects = (*refused, *_without_places(chunk.rejects))
        return replace(chunk, lines=count(text), rejects=rejects, refused=bool(refused))

    def feed(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """Keep the next piece of a document."""
        self._pieces.append(bytes(data))
        return self._lines.read(b"")

    def finish(self, *, broken: bool = False) -> Chunk:
        """The whole document; nothing where its rest could not be read."""
        text = b"" if broken else b"".join(self._pieces)
        self._pieces = []
        return replace(self.read(text), whole=self._one_event)

    def read_texts(self, texts: Sequence[bytes], sources: Sequence[str]) -> Texts:
        """Read several documents."""
        translated = [self._translated(text, source, 0) for text, source in zip(texts, sources, strict=True)]
        found = self._lines.read_texts([lines for lines, _ in translated], sources)
        refused = frozenset(k for k, (_, rejects) in enumerate(translated) if rejects)
        rejects = [reject for _, own in translated for reject in own]
        rejects += _without_places(found.chunk.rejects)
        return replace(found, chunk=replace(found.chunk, rejects=tuple(rejects)), refused=refused)

    def _translated(self, text: bytes, source: str, offset: int) -> tuple[bytes, tuple[Reject, ...]]:
        """A document as lines of N-Quads, or why it is refused."""
        try:
            lines = ox.serialize(ox.parse(text, _PARSERS[self.syntax]), format=ox.RdfFormat.N_QUADS) or b""
        except (SyntaxError, UnicodeDecodeError) as wrong:
            shown = text[: 4 * _SHOWN].decode("utf-8", "replace")[:_SHOWN]
            return b"", (Reject(source, 0, 0, f"not {self.syntax}: {wrong}", shown),)
        return _with_stable_labels(lines, text, f"{source}\n{offset}"), ()


def _with_stable_labels(lines: bytes, text: bytes, place: str) -> bytes:
    """Lines whose random labels are replaced by others that follow from the text and its place."""
    if not _LABELS.search(lines):
        return lines
    given = set(_LABELLED.findall(text))
    digest = hashlib.blake2b(text, digest_size=8, person=b"documents")
    digest.update(place.encode())
    prefix = b"_:d" + digest.hexdigest().encode()
    names: dict[bytes, bytes] = {}

    def renamed(match: re.Match[bytes]) -> bytes:
        label = match[1]
        if label in given:
            return match[0]
        return names.setdefault(label, b"%s-%d" % (prefix, len(names)))

    return _LABELS.sub(renamed, lines)


def _without_places(rejects: Sequence[Reject]) -> list[Reject]:
    """Rejects of translated lines: their numbers mean nothing to whoever wrote the document."""
    return [replace(reject, line=0, column=0) for reject in rejects]
