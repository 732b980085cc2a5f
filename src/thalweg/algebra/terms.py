"""Terms and triple patterns: frozen values that refuse nonsense when they are made."""

from __future__ import annotations

import re
from dataclasses import dataclass

XSD = "http://www.w3.org/2001/XMLSchema#"
XSD_STRING = f"{XSD}string"

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


def quoted(lexical: str) -> str:
    r"""A lexical form as canonical N-Triples text, without language tag and datatype.

    >>> print(quoted('say "hi"'))
    "say \"hi\""
    """
    return f'"{lexical.translate(_ESCAPES)}"'


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
        text = quoted(lexical)
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
    def constants(self) -> tuple[str | None, str | None, str | None]:
        """The texts of its constants; None is a variable."""
        s, p, o = (term.text if isinstance(term, Const) else None for term in self.terms)
        return s, p, o

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
