"""Logical nodes: frozen values that refuse nonsense when they are made."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from thalweg.algebra.windows import Count, Now, Range, Unbounded, Window

XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
OPERATORS = ("RSTREAM", "ISTREAM", "DSTREAM")
LANGUAGES = ("SPARQL", "RSP-QL", "C-SPARQL")
TRIPLE = ("subject", "predicate", "object")
"""The columns of an answer that is a graph."""

_TERM = re.compile(r'<[^<>"{}|^`\\\x00-\x20]*>|"(?:[^"\\\x00-\x1f\x7f]|\\.)*"(?:@[a-z0-9-]+|\^\^<[^<>]*>)?')
_ESCAPES = {ord(c): f"\\u{ord(c):04X}" for c in map(chr, [*range(0x20), 0x7F])} | {
    ord("\\"): "\\\\",
    ord('"'): '\\"',
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    ord("\b"): "\\b",
    ord("\f"): "\\f",
}


@dataclass(frozen=True, slots=True)
class Var:
    """A variable. Blank nodes of a query are variables too, named `_:label`: matched, never shown."""

    name: str

    def __post_init__(self) -> None:
        if not self.name or self.name[0] in "?$":
            raise ValueError(f"a variable's name is written without its mark, not {self.name!r}")

    @property
    def anonymous(self) -> bool:
        """Whether this stands for a blank node of the query, which no projection can name.

        >>> Var("_:b").anonymous, Var("b").anonymous
        (True, False)
        """
        return self.name.startswith("_:")

    def __str__(self) -> str:
        return self.name if self.anonymous else f"?{self.name}"


@dataclass(frozen=True, slots=True)
class Const:
    """A ground term, as canonical N-Triples text: the same text that the readers give the same term."""

    text: str

    def __post_init__(self) -> None:
        if not _TERM.fullmatch(self.text):
            raise ValueError(f"not a canonical IRI or literal: {self.text!r}")
        if self.text.endswith(f'"^^<{XSD_STRING}>'):
            raise ValueError(f"a string is written without its datatype: {self.text!r}")

    @classmethod
    def iri(cls, iri: str) -> Const:
        """The term of an absolute IRI.

        >>> Const.iri("http://ex/a")
        Const(text='<http://ex/a>')
        """
        return cls(f"<{iri}>")

    @classmethod
    def literal(cls, lexical: str, *, datatype: str | None = None, language: str | None = None) -> Const:
        r"""The term of a literal; its lexical form is kept, its language tag is lower-cased.

        >>> print(Const.literal('say "hi"\n', language="EN"), Const.literal("01", datatype="http://ex/int"))
        "say \"hi\"\n"@en "01"^^<http://ex/int>
        """
        text = f'"{lexical.translate(_ESCAPES)}"'
        if language:
            return cls(f"{text}@{language.lower()}")
        return cls(text if datatype in (None, XSD_STRING) else f"{text}^^<{datatype}>")

    @property
    def is_iri(self) -> bool:
        """Whether the term is an IRI."""
        return self.text.startswith("<")

    def __str__(self) -> str:
        return self.text


Term = Var | Const


@dataclass(frozen=True, slots=True)
class Pattern:
    """A triple pattern over one source of its query; line and column are where it is written."""

    s: Term
    p: Term
    o: Term
    source: int = 0
    line: int = 1
    column: int = 1

    def __post_init__(self) -> None:
        if self.source < 0:
            raise ValueError(f"a pattern's source is an index, not {self.source}")

    @property
    def terms(self) -> tuple[Term, Term, Term]:
        """Subject, predicate, object."""
        return (self.s, self.p, self.o)

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of its variables in order, each one once.

        >>> Pattern(Var("x"), Const.iri("http://ex/p"), Var("x")).variables
        ('x',)
        """
        return tuple(dict.fromkeys(t.name for t in self.terms if isinstance(t, Var)))

    @property
    def possible(self) -> bool:
        """Whether some triple of RDF 1.1 matches: the subject is no literal, the predicate is a variable or an IRI."""
        return (isinstance(self.s, Var) or self.s.is_iri) and (isinstance(self.p, Var) or self.p.is_iri)

    def __str__(self) -> str:
        return f"{self.s} {self.p} {self.o}"


@dataclass(frozen=True, slots=True)
class Source:
    """Streams merged by time and seen through one window; `name` is None for the default graph."""

    streams: tuple[str, ...]
    window: Window = field(default_factory=Unbounded)
    name: str | None = None

    def __post_init__(self) -> None:
        if not self.streams:
            raise ValueError("a source reads at least one stream")
        if len(set(self.streams)) != len(self.streams):
            raise ValueError(f"a source names a stream twice: {', '.join(self.streams)}")

    def __str__(self) -> str:
        read = " + ".join(f"<{stream}>" for stream in self.streams)
        return f"{read} {self.window}" + (f" as <{self.name}>" if self.name is not None else "")


@dataclass(frozen=True, slots=True)
class Equality:
    """A filter that leaves a variable one value: `?k = <iri>` or `sameTerm(?k, ...)`."""

    variable: str
    value: Const
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"?{self.variable} = {self.value}"


@dataclass(frozen=True, slots=True)
class Query:
    """A continuous query: patterns over sources, a projection, and how its answer is turned into a stream.

    `fixed` holds the variables that a rule replaced by a constant; a projected one still is in each solution.
    `equalities` are the filters that no rule has absorbed yet; a query from `lang.parse` has none.

    With a `template` the answer is a graph (CONSTRUCT): the triples of the template, for all solutions. `select` is
    then what these need of a solution. An anonymous variable of the template is a new blank node in each solution.

    `empty` is why the query has no solution over any data, or None where it may have some.
    """

    language: str
    operator: str | None
    output: str | None
    distinct: bool
    select: tuple[str, ...]
    fixed: tuple[tuple[str, Const], ...]
    sources: tuple[Source, ...]
    patterns: tuple[Pattern, ...]
    text: str
    equalities: tuple[Equality, ...] = ()
    template: tuple[Pattern, ...] | None = None
    loose: tuple[str, ...] = ()
    """Variables of the template that nothing binds; a rule has dropped their triples."""
    empty: str | None = None

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise ValueError(f"unknown language {self.language!r}")
        if self.operator is not None and self.operator not in OPERATORS:
            raise ValueError(f"unknown operator {self.operator!r}")
        if not self.patterns or not self.sources:
            raise ValueError("a query has at least one pattern and one source")
        if len(set(self.select)) != len(self.select):
            raise ValueError("a variable is projected once")
        if any(pattern.source >= len(self.sources) for pattern in self.patterns):
            raise ValueError("a pattern reads a source that the query does not have")
        made = (Var(name) for triple in self.template or () for name in triple.variables)
        needed = {term.name for term in made if not term.anonymous} & set(self.variables)
        if not needed <= set(self.select):
            raise ValueError("a template is made of what a solution keeps")
        names = [name for name, _ in self.fixed]
        if len(set(names)) != len(names) or set(names) & set(self.variables):
            raise ValueError("a fixed variable has one value and is in no pattern")

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of all variables of the patterns, in order of appearance, blank nodes included."""
        return tuple(dict.fromkeys(name for pattern in self.patterns for name in pattern.variables))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of what a row of the answer binds, in order."""
        if self.template is not None:
            return TRIPLE
        bound = {*self.variables, *(name for name, _ in self.fixed)}
        return tuple(name for name in self.select if name in bound)

    @property
    def doubts(self) -> tuple[str, ...]:
        """What is valid and can hardly be meant: an answer that is always empty, and variables of the projection or the
        template that nothing binds.
        """
        if self.empty is not None:
            return (f"the answer is always empty: {self.empty}",)
        if self.template is None:
            loose = [name for name in self.select if name not in self.columns]
            return tuple(f"?{name} is selected and no pattern binds it: no row has it" for name in loose)
        return tuple(
            f"?{name} is in the template and no pattern binds it: its triples are never made"
            for name in self.loose
        )

    @property
    def streams(self) -> tuple[str, ...]:
        """IRIs of all streams that the query reads, each one once."""
        return tuple(dict.fromkeys(stream for source in self.sources for stream in source.streams))

    @property
    def per_event(self) -> bool:
        """Whether the query is asked of each event alone: its window is [NOW]."""
        return any(isinstance(source.window, Now) for source in self.sources)

    @property
    def by_count(self) -> bool:
        """Whether some window counts: then every event matters, whatever the patterns want."""
        return any(isinstance(source.window, Count) for source in self.sources)

    @property
    def tells_empty(self) -> bool:
        """Whether a report with an empty answer is told by a row of its own."""
        return any(
            isinstance(w, Range | Count) and w.report is not None and w.report.empty
            for w in (source.window for source in self.sources)
        )
