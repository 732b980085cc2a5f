"""The formats that streams are read from: one table of names, suffixes, framing and readers.

A new format is an entry of `FORMATS` and a class that is a `Reader`. This module loads no reader before it is needed:
the processes in which Spark plans a source, and the command line's help, look up names only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from thalweg.errors import UsageError
from thalweg.lines import last_end
from thalweg.rdf.compression import compression_suffixes, without_compression

if TYPE_CHECKING:
    from thalweg.rdf.arena import Arena, Bytes, Ids
    from thalweg.rdf.chunk import Chunk
    from thalweg.rdf.events import EventBatch
    from thalweg.rdf.mapping import Mapping
    from thalweg.rdf.prune import Prune
    from thalweg.rdf.texts import Texts

Mode = Literal["triples", "graphs", "events"]
"""What an event is: so many statements, the statements of a graph that has a time, or what the format says."""
Cut = Callable[[bytes | bytearray, int, int], int]
"""The offset behind the last line, or the last row, that is sure to end within [low, high), or `low`."""
BlankNodes = Literal["event", "stable"]
"""What the label of a blank node is local to: its event, or nothing."""

GENERATED_AT = b"<http://www.w3.org/ns/prov#generatedAtTime>"
"""The predicate of a graph's time, unless another one is given."""


class Reader(Protocol):
    """Bytes of one source to chunks of ids. It keeps nothing from call to call but memory."""

    @property
    def prune(self) -> Prune:
        """What is kept of the statements."""

    def read(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """The statements of a piece: whole lines, or a whole document. `offset` is where it begins in the source."""

    def read_texts(self, texts: Sequence[bytes], sources: Sequence[str]) -> Texts:
        """The statements of several texts, each of which begins anew."""


class SequentialReader(Reader, Protocol):
    """A reader that can be given all pieces of a source in order, however they are cut; it keeps what is unfinished.

    It keeps texts and no ids of its arena: arena and prune may be replaced between two pieces.
    """

    arena: Arena
    prune: Prune

    def feed(self, data: bytes | memoryview | Bytes, *, offset: int = 0) -> Chunk:
        """What the next piece completes. The bytes are good only until the next call."""

    def finish(self, *, broken: bool = False) -> Chunk:
        """What the end of the source completes or leaves unfinished; `broken`: its rest could not be read."""


class Framer(Protocol):
    """Chunks of one stream, in order, to batches of whole events. Its state can be saved and restored."""

    stream: str

    @property
    def clock(self) -> int:
        """The largest time of an event so far, or NO_TIME."""

    @property
    def ignored(self) -> int:
        """Statements that belong to no event."""

    def frame(self, chunk: Chunk) -> EventBatch:
        """The events that a chunk completes."""

    def close(self) -> EventBatch:
        """The events that the end of the stream completes."""

    def live_ids(self) -> Ids:
        """The ids that the framer still refers to."""

    def state(self) -> bytes:
        """What another framer of the stream needs to continue."""

    def restore(self, state: bytes) -> None:
        """Continue from a saved state."""


@dataclass(frozen=True)
class Format:
    """A format: its names, how files of it are divided and framed, and the class that reads it."""

    name: str
    """The name in options: `--format`, `push(format=)`, `events(format=)`, the option `syntax` of `format("rdf")`."""
    title: str
    """The name in messages."""
    media_types: tuple[str, ...]
    reader_class: str
    """Module and class of the reader, as `module:Class`."""
    suffixes: tuple[str, ...] = ()
    """The suffixes of files that are read without being asked for; the first is the usual one."""
    has_graphs: bool = False
    """Whether statements can be in named graphs; such files are framed by graphs unless the mode is given."""
    has_events: bool = False
    """Whether it states whole events, with their ops and times: its reader gives chunks of events."""
    splittable: bool = False
    """Whether whole lines can be read apart from the lines before them."""
    sequential: bool = False
    """Whether one reader takes the pieces of a file in order (`SequentialReader`), however large it is."""
    documents_are_events: bool = False
    """Whether a document is one event unless the mode, or the number of statements of an event, is given."""
    has_rows: bool = False
    """Whether it is rows, of which a mapping makes events: its suffixes count only where there is a mapping."""
    quotes: bool = False
    """Whether a line end in quotes is a part of a cell: its pieces are cut by `cut`."""
    extras: tuple[str, ...] = ()
    """Options of a run that its reader takes beside those of all readers."""

    def __post_init__(self) -> None:
        packed = compression_suffixes()
        if any(suffix in packed or suffix != "." + suffix[1:].lower() for suffix in self.suffixes):
            raise ValueError(f"suffixes begin with a dot and are in small letters: {self.suffixes}")
        if self.has_graphs and self.has_events:
            raise ValueError("an event is a graph, or what the format says, and not both")

    @property
    def mode(self) -> Mode:
        """How files of the format are framed unless the mode is given."""
        if self.has_events:
            return "events"
        return "graphs" if self.has_graphs and not self.documents_are_events else "triples"

    def reader(
        self,
        arena: Arena,
        prune: Prune,
        *,
        source: str,
        blank_nodes: BlankNodes = "event",
        per_event: int = 1,
        time_predicate: bytes = GENERATED_AT,
        stream: str = "",
        **extras: Any,
    ) -> Reader:
        """A reader of one source into an arena.

        `per_event` is the number of statements of an event, 0 where each piece or document is one event. An empty
        `time_predicate` reads graphs as plain statements. A format of events can name the stream of each; others than
        `stream` are left out, unless it is empty.
        """
        module, _, name = self.reader_class.partition(":")
        more = {"stream": stream} if self.has_events else {}
        if self.has_rows:
            self.required(extras.get("mapping"), source)
        made: Reader = getattr(import_module(module), name)(
            arena,
            prune,
            syntax=self.name,
            source=source,
            blank_nodes=blank_nodes,
            per_event=per_event,
            time_predicate=time_predicate,
            **more,
            **extras,
        )
        return made

    def required(self, mapping: Mapping | None, source: str) -> Mapping:
        """The mapping of rows; without one, they are refused."""
        if mapping is None:
            raise UsageError(
                f"{self.title} needs a mapping that makes RDF of its rows: --mapping", source=source
            )
        return mapping

    def cut(self, mapping: Mapping | None) -> Cut:
        """The function that finds the end of what is whole at the beginning of some data."""
        if not self.quotes or mapping is None:
            return last_end
        from thalweg.rdf.headers import Dialect

        return Dialect.of(self.name, mapping.rules.layout).whole_rows

    def writer(self) -> type:
        """The class of the writers, a `thalweg.io.writers.Writer`."""
        module, _, name = WRITERS[self.name].partition(":")
        found: type = getattr(import_module(module), name)
        return found


_ROWS = "thalweg.rdf.delimited:DelimitedReader"
_OF_ROWS: Any = {"has_events": True, "splittable": True, "has_rows": True}
_LINES, _DOCUMENTS = "thalweg.rdf.ntriples:LineReader", "thalweg.rdf.documents:DocumentReader"
_EVENT: Any = {"sequential": True, "documents_are_events": True}

FORMATS = {
    format.name: format
    for format in (
        Format("nt", "N-Triples", ("application/n-triples",), _LINES, (".nt",), splittable=True),
        Format("nq", "N-Quads", ("application/n-quads",), _LINES, (".nq",), has_graphs=True, splittable=True),
        Format("turtle", "Turtle", ("text/turtle",), _DOCUMENTS, (".ttl",), **_EVENT),
        Format(
            "trig", "TriG", ("application/trig",), _DOCUMENTS, (".trig",), has_graphs=True, sequential=True
        ),
        Format(
            "jsonld",
            "JSON-LD",
            ("application/ld+json",),
            _DOCUMENTS,
            (".jsonld",),
            has_graphs=True,
            extras=("contexts",),
            **_EVENT,
        ),
        Format("rdfxml", "RDF/XML", ("application/rdf+xml",), _DOCUMENTS, (".rdf", ".xml", ".owl"), **_EVENT),
        Format("n3", "N3", ("text/n3",), _DOCUMENTS, (".n3",), **_EVENT),
        Format(
            "rdfp",
            "RDF Patch",
            ("application/rdf-patch", "text/rdf-patch"),
            "thalweg.rdf.patch:PatchReader",
            (".rdfp",),
            has_events=True,
            sequential=True,
        ),
        Format(
            "ru",
            "SPARQL Update",
            ("application/sparql-update",),
            "thalweg.rdf.update:UpdateReader",
            (".ru",),
            has_events=True,
            sequential=True,
        ),
        Format(
            "jelly",
            "Jelly",
            ("application/x-jelly-rdf",),
            "thalweg.rdf.jelly:JellyReader",
            (".jelly",),
            has_events=True,
            sequential=True,
        ),
        Format(
            "jsonl",
            "JSON lines",
            ("application/x-ndjson", "application/jsonl"),
            "thalweg.rdf.jsonlines:JsonLinesReader",
            (".jsonl", ".ndjson"),
            has_events=True,
            splittable=True,
        ),
        Format("csv", "CSV", ("text/csv",), _ROWS, (".csv",), quotes=True, **_OF_ROWS),
        Format("tsv", "TSV", ("text/tab-separated-values",), _ROWS, (".tsv",), quotes=True, **_OF_ROWS),
        Format("json-rows", "JSON rows", (), "thalweg.rdf.json_rows:JsonRowReader", **_OF_ROWS),
    )
}
"""All formats that are read, by name."""

_ONLY_WRITTEN = {
    format.name: format
    for format in (
        Format("parquet", "Parquet", (), "", (".parquet",)),
        Format("sparql-json", "SPARQL results (JSON)", ("application/sparql-results+json",), "", (".srj",)),
        Format("sparql-xml", "SPARQL results (XML)", ("application/sparql-results+xml",), "", (".srx",)),
        Format("sparql-csv", "SPARQL results (CSV)", ("text/csv",), ""),
        Format("sparql-tsv", "SPARQL results (TSV)", ("text/tab-separated-values",), ""),
    )
}
WRITERS = {
    "nt": "thalweg.io.graphs:NTriples",
    "nq": "thalweg.io.graphs:NQuads",
    "turtle": "thalweg.io.turtle:Turtle",
    "trig": "thalweg.io.turtle:TriG",
    "rdfp": "thalweg.io.patches:RdfPatch",
    "jsonl": "thalweg.io.writers:JsonLines",
    "csv": "thalweg.io.writers:Csv",
    "tsv": "thalweg.io.writers:Tsv",
    "parquet": "thalweg.io.parquet:Parquet",
    "sparql-json": "thalweg.io.sparql_results:SparqlJson",
    "sparql-xml": "thalweg.io.sparql_results:SparqlXml",
    "sparql-csv": "thalweg.io.sparql_results:SparqlCsv",
    "sparql-tsv": "thalweg.io.sparql_results:SparqlTsv",
}
"""Module and class of the writers of answers, by the name of the format."""


def writable() -> dict[str, Format]:
    """The formats that are written, by name.

    >>> writable()["turtle"].suffixes
    ('.ttl',)
    """
    known = _ONLY_WRITTEN | FORMATS
    return {name: known[name] for name in WRITERS}


def format_named(name: str, option: str = "format") -> Format:
    """The format of a name; another name is refused with the list of those that there are.

    >>> format_named("nq").title
    'N-Quads'
    """
    if name not in FORMATS:
        meant = next((one.name for one in FORMATS.values() if f".{name}".lower() in one.suffixes), None)
        hint = f"; did you mean {meant}?" if meant else ""
        raise UsageError(f"{option} is one of {', '.join(FORMATS)}, not {name!r}{hint}")
    return FORMATS[name]


def find_format(path: str | Path, *, rows: bool = False) -> Format | None:
    """The format that a file's name stands for, if any; it may be compressed. `rows` are read where there is a mapping.

    >>> [found and found.name for found in map(find_format, ("a.nt", "b.NQ.gz", "c.ttl.zst", "d.txt"))]
    ['nt', 'nq', 'turtle', None]
    """
    suffix = os.path.splitext(without_compression(os.path.basename(path)))[1]
    known = (format for format in FORMATS.values() if rows or not format.has_rows)
    return next((format for format in known if suffix in format.suffixes), None)


def found_in_folder(name: str, *, rows: bool = False) -> bool:
    """Whether a file of a folder is read by its name (`find_format`).

    `.jsonl` is not, for answers and quarantines are called so, too.

    >>> found_in_folder("a.nt"), found_in_folder("a.jsonl.gz"), found_in_folder("a.ndjson")
    (True, False, True)
    """
    return find_format(name, rows=rows) is not None and not without_compression(name).endswith(".jsonl")


def format_of(path: str | Path, *, rows: bool = False) -> Format:
    """The format that a file's name stands for (`find_format`); a name without one is refused.

    >>> format_of("quads.nq.gz").name
    'nq'
    """
    found = find_format(path, rows=rows)
    if found is None:
        if (of_rows := find_format(path, rows=True)) is not None:
            of_rows.required(None, str(path))
        raise UsageError(f"the name of {path} has no known suffix: expected {readable_suffixes()}")
    return found


def suffixes() -> list[str]:
    """The suffixes of all formats but rows, without those of compressions.

    >>> suffixes()[:3]
    ['.nt', '.nq', '.ttl']
    """
    return [suffix for format in FORMATS.values() if not format.has_rows for suffix in format.suffixes]


def readable_suffixes() -> str:
    """The suffixes of all files that are read, for messages.

    >>> readable_suffixes()[-27:]
    ', also with .gz, .zst, .bz2'
    """
    packed = [suffix for suffix in compression_suffixes() if suffix != ".zstd"]
    return f"{', '.join(suffixes())}, also with {', '.join(packed)}"
