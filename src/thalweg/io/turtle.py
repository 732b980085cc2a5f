"""Turtle and TriG: terms with prefixes, and statements grouped by subject and predicate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from thalweg.algebra.terms import XSD
from thalweg.io.graphs import DATE_TIME, STAMP, GraphWriter, Statements, name_of
from thalweg.io.snapshots import Row, Snapshot

Triple = Sequence[str]

RDF_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
WELL_KNOWN = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": XSD,
    "prov": "http://www.w3.org/ns/prov#",
    "sosa": "http://www.w3.org/ns/sosa/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "schema": "http://schema.org/",
}
"""Prefixes that are declared where they are used, unless the query has its own."""

_LOCAL = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?")
"""Local names that need no escape anywhere; others are written as whole IRIs."""
_PREFIX = re.compile(r"(?:[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)?")
_INTEGER = re.compile(rf'"([+-]?[0-9]+)"\^\^<{XSD}integer>')
_BOOLEAN = re.compile(rf'"(true|false)"\^\^<{XSD}boolean>')
_DATATYPE = re.compile(r'(".*")\^\^(<[^<>]*>)', re.DOTALL)
_MOST_NAMES = 1 << 16


class Names:
    """IRIs as prefixed names where a prefix fits; `fresh` are the prefixes that were used and not yet declared."""

    def __init__(self, prefixes: Mapping[str, str], *, well_known: bool = True) -> None:
        taken = set(prefixes.values())
        more = {p: iri for p, iri in WELL_KNOWN.items() if p not in prefixes and iri not in taken}
        chosen = {**prefixes, **(more if well_known else {})}
        self._of = {iri: prefix for prefix, iri in chosen.items() if iri and _PREFIX.fullmatch(prefix)}
        self._known: dict[str, str] = {}
        self.used: dict[str, str] = {}
        self.fresh: dict[str, str] = {}

    def term(self, text: str) -> str:
        """A term of N-Triples as one of Turtle.

        >>> names = Names({"ex": "http://ex/"})
        >>> names.term("<http://ex/a>"), names.term("<http://ex/a/b>"), names.term(f'"5"^^<{XSD}integer>')
        ('ex:a', '<http://ex/a/b>', '5')
        >>> names.term(f'"x"^^<{XSD}date>'), names.fresh
        ('"x"^^xsd:date', {'ex': 'http://ex/', 'xsd': 'http://www.w3.org/2001/XMLSchema#'})
        """
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= _MOST_NAMES:
                self._known.clear()
            found = self._known[text] = self._made(text)
        return found

    def predicate(self, text: str) -> str:
        """A predicate of N-Triples as one of Turtle."""
        return "a" if text == RDF_TYPE else self.term(text)

    def declarations(self) -> str:
        """The declarations of the prefixes that have been used since the last call."""
        text = "".join(f"PREFIX {prefix}: <{iri}>\n" for prefix, iri in self.fresh.items())
        self.used |= self.fresh
        self.fresh = {}
        return text

    def _made(self, text: str) -> str:
        if text[0] == "<":
            return self._iri(text)
        if text[0] != '"' or text[-1] != ">":
            return text
        if number := _INTEGER.fullmatch(text) or _BOOLEAN.fullmatch(text):
            return number[1]
        parts = _DATATYPE.fullmatch(text)
        return text if parts is None else f"{parts[1]}^^{self._iri(parts[2])}"

    def _iri(self, text: str) -> str:
        cut = max(text.rfind("#"), text.rfind("/"), text.rfind(":")) + 1
        space, local = text[1:cut], text[cut:-1]
        prefix = self._of.get(space)
        if prefix is None or not _LOCAL.fullmatch(local):
            return text
        if prefix not in self.used:
            self.fresh[prefix] = space
        return f"{prefix}:{local}"


def blocks(names: Names, triples: Iterable[Triple], indent: str = "") -> Iterator[str]:
    """Statements in which neighbours share a subject, and within it a predicate."""
    for subject, rows in groupby(triples, itemgetter(0)):
        parts = [
            f"{names.predicate(predicate)} {', '.join(names.term(row[2]) for row in same)}"
            for predicate, same in groupby(rows, itemgetter(1))
        ]
        joined = f" ;\n{indent}    ".join(parts)
        yield f"{indent}{names.term(subject)} {joined} .\n"


class Turtle(Snapshot):
    """The triples of the answer."""

    of = "construct"

    def _begin(self) -> bytes:
        self._names = Names(self.answer.prefixes)
        return b""

    def _text(self, rows: Iterable[Row]) -> bytes:
        text = "".join(blocks(self._names, ([term or "" for term in row] for row in rows)))
        return (self._names.declarations() + text).encode()


class TriG(GraphWriter):
    """The triples of each instant, or of each event, in a graph of their own that has its time."""

    _names: Names | None = None

    def _text(self, statements: Statements) -> str:
        # Prefixes are declared anew in what is added to a file: whoever wrote its beginning used others.
        names = self._names = self._names or Names(self.answer.prefixes)
        stream = self.answer.stream
        rows = zip(statements.times, statements.graphs, *statements.triples, strict=True)
        parts: list[tuple[str, str, Sequence[Triple]]]
        if not self.answer.timed:  # in their order: the times of graphs stand beside the graphs
            parts = [
                ("", graph or "", [row[2:] for row in same]) for graph, same in groupby(rows, itemgetter(1))
            ]
        else:
            found: dict[tuple[str, str], list[Triple]] = {}
            for time, graph, *triple in rows:
                found.setdefault((time, graph or name_of(stream, time)), []).append(triple)
            parts = [(time, graph, same) for (time, graph), same in found.items()]
        text = "".join(_graph(names, time, graph, same) for time, graph, same in parts)
        return names.declarations() + text


def _graph(names: Names, time: str, graph: str, rows: Sequence[Triple]) -> str:
    if not graph:
        return "".join(blocks(names, rows))
    name = names.term(graph)
    literal = f'"{time}"^^{DATE_TIME}'
    stamp = f"{name} {names.term(STAMP)} {names.term(literal)} .\n" if time else ""
    return f"{stamp}{name} {{\n{''.join(blocks(names, rows, '  '))}}}\n"
