"""Names of a query: prefixes and base, and the absolute IRIs that they give."""

from __future__ import annotations

import re
from typing import Any

import pyoxigraph
import rdflib
from rdflib.plugins.sparql.parserutils import CompValue

from thalweg.algebra.terms import Const
from thalweg.hints import PREFIXES, meant
from thalweg.lang.clauses import Name
from thalweg.lang.text import QueryText

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_LEGAL = re.compile(r'[^<>"{}|^`\\\x00-\x20]*')
_LOCAL_ESCAPE = re.compile(r"\\(.)")


class Prologue:
    """The BASE and PREFIX lines of a query, in order."""

    def __init__(self, query: QueryText, declarations: Any) -> None:
        self.query = query
        self.base: str | None = None
        self.prefixes: dict[str, str] = {}
        for declaration in declarations:
            iri = self.absolute(str(declaration.iri), declaration.at)
            if declaration.name == "Base":
                self.base = iri
            else:
                self.prefixes[declaration.prefix or ""] = iri

    def iri(self, term: Any, at: int) -> str:
        """The absolute IRI of a term of the tree, an IRI or a prefixed name."""
        if isinstance(term, CompValue):
            return self.prefixed(term.prefix or "", term.localname or "", term.at)
        return self.absolute(str(term), getattr(term, "at", at))

    def constant(self, term: Any, at: int) -> Const:
        """The term of the tree that is an IRI, a prefixed name or a literal."""
        if isinstance(term, rdflib.Literal):
            return Const.literal(str(term), datatype=term.datatype and str(term.datatype))
        if isinstance(term, CompValue) and term.name == "literal":
            datatype = None if term.datatype is None else self.iri(term.datatype, term.at)
            return Const.literal(str(term.string), datatype=datatype, language=term.lang)
        if isinstance(term, rdflib.URIRef) or (isinstance(term, CompValue) and term.name == "pname"):
            return Const.iri(self.iri(term, at))
        self.query.refuse("this construct is not supported yet", getattr(term, "at", None) or at)

    def clause_name(self, name: Name) -> str:
        """The IRI of a stream or a window. It is a name only, so it may stay relative without a BASE."""
        if name.text.startswith("<"):
            return self.resolve(name.text[1:-1], name.at)
        prefix, _, local = name.text.partition(":")
        return self.prefixed(prefix, local, name.at)

    def prefixed(self, prefix: str, local: str, at: int) -> str:
        """The IRI of `prefix:local`."""
        if prefix not in self.prefixes:
            near = meant(prefix, self.prefixes, 0.6) if prefix not in PREFIXES else None
            what = (
                f"did you mean '{near}:'?"
                if near
                else f"declare it with PREFIX {prefix}: <{PREFIXES.get(prefix, '...')}>"
            )
            self.query.fail(f"unknown prefix '{prefix}:': {what}", at)
        iri = self.prefixes[prefix] + _LOCAL_ESCAPE.sub(r"\1", local)
        if not _LEGAL.fullmatch(iri):
            self.query.fail(f"'{prefix}:{local}' has a character that no IRI can have", at)
        return iri

    def absolute(self, iri: str, at: int) -> str:
        """The IRI, resolved; one that stays relative can match no data and is refused."""
        resolved = self.resolve(iri, at)
        if not _ABSOLUTE.match(resolved):
            self.query.fail(f"<{iri}> is relative and the query has no BASE", at)
        return resolved

    def resolve(self, iri: str, at: int) -> str:
        """The IRI as RFC 3986 resolves it against the base; an absolute one stays exactly as written."""
        if self.base is None or _ABSOLUTE.match(iri):
            return iri
        try:
            (quad,) = pyoxigraph.parse(
                f"<> <x:x> <{iri}> .", format=pyoxigraph.RdfFormat.TURTLE, base_iri=self.base
            )
        except (SyntaxError, ValueError) as error:
            self.query.fail(f"<{iri}> cannot be resolved against <{self.base}>: {error}", at)
        return str(quad.object.value)  # type: ignore[union-attr]
