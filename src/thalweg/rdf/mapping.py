"""Mappings of rows to RDF: templates of triples with slots for columns, the time of a row, and how rows are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Literal

from thalweg.errors import UsageError

TermKind = Literal["iri", "literal", "blank"]
TimeForm = Literal["dateTime", "epoch-s", "epoch-ms", "epoch-us", "pattern"]

_SHOWN_COLUMNS = 40


@dataclass(frozen=True)
class Column:
    """A slot of a template: the name of a column, and where the mapping names it."""

    name: str
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Term:
    """A term template: texts and slots in turn; of a literal also its datatype or language.

    An IRI whose only part is a slot is the cell as it stands (relative to `base`, if it is relative). A literal with
    one slot and neither datatype nor language has the natural datatype of the cell: that of a number in JSON, for
    example.
    """

    kind: TermKind
    parts: tuple[str | Column, ...]
    datatype: str | None = None
    language: str | None = None
    base: str = ""

    def __post_init__(self) -> None:
        if not self.parts and self.kind != "literal":
            raise ValueError("a term without a text")
        if self.kind != "literal" and (self.datatype or self.language):
            raise ValueError("only literals have a datatype or a language")
        if self.datatype and self.language:
            raise ValueError("a literal has a datatype or a language, not both")
        if self.kind == "blank" and self.columns:
            raise ValueError("the label of a blank node has no slots")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The slots."""
        return tuple(part for part in self.parts if isinstance(part, Column))

    @property
    def is_constant(self) -> bool:
        """Whether all rows have the same term."""
        return not self.columns and self.kind != "blank"

    @property
    def is_natural(self) -> bool:
        """Whether the datatype is that of the cell."""
        plain = self.datatype is None and self.language is None
        return self.kind == "literal" and plain and len(self.parts) == 1 and bool(self.columns)


@dataclass(frozen=True)
class Triple:
    """A template of a triple: a row has it if it has all of its cells."""

    s: Term
    p: Term
    o: Term

    @property
    def terms(self) -> tuple[Term, Term, Term]:
        """Subject, predicate and object."""
        return self.s, self.p, self.o

    @property
    def columns(self) -> frozenset[Column]:
        """The columns that a row needs for the triple."""
        return frozenset(column for term in self.terms for column in term.columns)


@dataclass(frozen=True)
class TimeRule:
    """Where the time of a row is, and how it is written."""

    column: Column
    form: TimeForm = "dateTime"
    pattern: str = ""
    """The pattern of `strptime`, if that is the form."""
    zone: str | None = None
    """The zone of times that do not name theirs: `UTC`, `+01:00` or a name of the tz database."""


@dataclass(frozen=True)
class Layout:
    """How rows are written; JSON rows need none of it."""

    columns: tuple[str, ...] | None = None
    """The names of the columns, where files have no header."""
    delimiter: str | None = None
    """One ASCII character; None: a comma, or a tab for TSV."""
    quote: str | None = '"'


@dataclass(frozen=True)
class Rules:
    """What a mapping says."""

    triples: tuple[Triple, ...]
    graph: Term | None = None
    """The name of a row's event."""
    time: TimeRule | None = None
    """None: rows are events at arrival, as N-Triples are."""
    op: Column | None = None
    """The column that says whether a row inserts or deletes."""
    layout: Layout = Layout()
    source: str = "mapping"

    @property
    def columns(self) -> dict[str, Column]:
        """The columns that the mapping names, each where it names it first."""
        named: dict[str, Column] = {}
        for column in self._named():
            named.setdefault(column.name, column)
        return named

    def _named(self) -> Iterator[Column]:
        for triple in self.triples:
            for term in triple.terms:
                yield from term.columns
        if self.graph is not None:
            yield from self.graph.columns
        if self.time is not None:
            yield self.time.column
        if self.op is not None:
            yield self.op

    def places(self, there: Sequence[str], source: str) -> dict[str, int]:
        """The place of each column that is named; one that is missing, or is there twice, is refused.

        `source` is where the columns are, for the message.
        """
        for name, column in self.columns.items():
            if list(there).count(name) != 1:
                raise self._missing(name, column, there, source)
        return {name: list(there).index(name) for name in self.columns}

    def _missing(self, name: str, column: Column, there: Sequence[str], source: str) -> UsageError:
        shown = ", ".join(there[:_SHOWN_COLUMNS]) + (", ..." if len(there) > _SHOWN_COLUMNS else "")
        if name in there:
            reason = f"the mapping names the column {name!r}, which {source} has more than once: {shown}"
        else:
            near = get_close_matches(name, there, n=1)
            meant = f"did you mean {near[0]!r}? There" if near else "there"
            reason = (
                f"the mapping names the column {name!r}, which {source} does not have: {meant} are {shown}"
            )
            if self.layout.columns is None and near == [] and source != "the table":
                reason += " (if the file has no header, give `rows: columns:` in the mapping)"
        return UsageError(reason, source=self.source, line=column.line or None, column=column.column or None)


@dataclass(frozen=True)
class Mapping:
    """A mapping of rows to RDF, from a text in the subset of YARRRML that `docs/mapping.md` describes.

    >>> mapping = Mapping('''
    ... prefixes: {ex: "http://ex/"}
    ... mappings:
    ...   reading:
    ...     s: ex:sensor/$(id)
    ...     po:
    ...       - [ex:value, $(value), "http://www.w3.org/2001/XMLSchema#decimal"]
    ... event: {time: $(at), format: epoch-s}
    ... ''')
    >>> list(mapping.rules.columns)
    ['id', 'value', 'at']
    """

    text: str
    source: str = field(default="mapping", compare=False, repr=False)
    """What the text is called in messages."""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise UsageError(
                f"a mapping is made of its text, not of {type(self.text).__name__}: see Mapping.read"
            )
        _rules(self.text, self.source)

    @classmethod
    def read(cls, path: str | Path) -> Mapping:
        """The mapping in a file."""
        try:
            return cls(Path(path).read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise UsageError(
                f"the mapping cannot be read: {error.strerror or error}", source=str(path)
            ) from None
        except UnicodeDecodeError as error:
            raise UsageError(f"the mapping is not UTF-8: {error.reason}", source=str(path)) from None

    @property
    def rules(self) -> Rules:
        """What it says."""
        return _rules(self.text, self.source)


@lru_cache(maxsize=64)
def _rules(text: str, source: str) -> Rules:
    from thalweg.rdf.yarrrml import parse

    return parse(text, source)
