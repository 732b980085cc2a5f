"""A schema: the axioms that some triples state, as links between properties and classes.

Only triples with a predicate or a type of the vocabulary state axioms. Other triples of a schema are no data. What is
not supported is ignored, counted, and can be listed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from thalweg.errors import warn
from thalweg.schema.reading import Triple, read_triples
from thalweg.schema.rules import TRANSITIVE, rules_of

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
TYPE = f"<{RDF}type>"

SAME, SWAPPED, SUBJECT, OBJECT = "SO", "OS", "S", "O"
"""What a link passes on, by the paper's names: both ends; both ends, swapped; the subject or the object to a class."""


class Link(NamedTuple):
    """A link from a property to a property (SAME, SWAPPED) or to a class (SUBJECT, OBJECT)."""

    kind: str
    target: str


@dataclass(frozen=True)
class Ignored:
    """Axioms of a schema that are ignored for one reason: how many, and the first of them."""

    reason: str
    count: int
    example: Triple

    def __str__(self) -> str:
        times = "" if self.count == 1 else f" ({self.count:,} times)"
        return f"{self.reason}{times}: {' '.join(self.example).replace(BLANK, '_:')}"


@dataclass(frozen=True)
class Schema:
    """The axioms of a schema under some rules. Schemas with the same axioms and rules are equal.

    >>> schema = Schema.of([("<http://ex/A>", f"<{RDFS}subClassOf>", "<http://ex/B>")])
    >>> schema.supers, schema.size
    ({'<http://ex/A>': ('<http://ex/B>',)}, 1)
    """

    digest: str
    """Of the axioms that are used, and of the rules."""
    rules: tuple[str, ...]
    links: Mapping[str, tuple[Link, ...]] = field(compare=False, repr=False)
    """By property: where its triples lead."""
    supers: Mapping[str, tuple[str, ...]] = field(compare=False, repr=False)
    """By class: its direct superclasses."""
    transitive: frozenset[str] = field(compare=False, repr=False, default=frozenset())
    ignored: tuple[Ignored, ...] = field(compare=False, repr=False, default=())
    source: str = field(compare=False, repr=False, default="schema")
    others: int = field(compare=False, repr=False, default=0)
    """Triples that state no axiom."""

    @classmethod
    def of(
        cls,
        triples: Iterable[Triple],
        rules: str | Iterable[str] | None = None,
        *,
        source: str = "schema",
    ) -> Schema:
        """The schema that some triples of canonical texts state, under these rules."""
        chosen = rules_of(rules)
        links: dict[str, dict[Link, None]] = {}
        supers: dict[str, dict[str, None]] = {}
        transitive: set[str] = set()
        ignored: dict[str, tuple[int, Triple]] = {}
        used: set[Triple] = set()
        others = 0
        for triple in dict.fromkeys(map(_apart, triples)):
            reason = _reason_to_ignore(triple, chosen)
            if reason == "":
                others += 1
            elif reason is not None:
                count, example = ignored.get(reason, (0, triple))
                ignored[reason] = count + 1, example
            else:
                _state(triple, links, supers, transitive)
                used.add(triple)
        digest = hashlib.sha256(repr((sorted(used), chosen)).encode("utf-8", "surrogatepass"))
        return cls(
            digest.hexdigest()[:32],
            chosen,
            {p: tuple(found) for p, found in links.items()},
            {c: tuple(found) for c, found in supers.items()},
            frozenset(transitive),
            tuple(Ignored(reason, *found) for reason, found in ignored.items()),
            source,
            others,
        )

    @cached_property
    def below(self) -> dict[tuple[str, str], list[tuple[str, str]]]:
        """By property (`p`) or class (`c`): the properties and classes from which a link leads to it."""
        found: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for p, links in self.links.items():
            for kind, target in links:
                found.setdefault(("p" if kind in (SAME, SWAPPED) else "c", target), []).append(("p", p))
        for c, above in self.supers.items():
            for one in above:
                found.setdefault(("c", one), []).append(("c", c))
        return found

    def led_to(self, p: str) -> frozenset[str]:
        """The properties that the triples of a property lead to, beside itself."""
        return frozenset(q for q, _ in self._led_to(p)) - {p}

    def turns_objects(self, p: str | None) -> bool:
        """Whether the object of some triple, which may be a literal, can be the subject of a derived triple of p.

        Properties lead to p with their ends swapped, or rdf:type does, which ranges give to objects.
        """
        if any((p, True) in self._led_to(q) for q in self.links):
            return True
        has_classes = any(link.kind in (SUBJECT, OBJECT) for found in self.links.values() for link in found)
        return has_classes and (p, False) in self._led_to(TYPE)

    def _led_to(self, p: str) -> set[tuple[str, bool]]:
        found, pending = {(p, False)}, [(p, False)]
        while pending:
            q, swapped = pending.pop()
            for kind, target in self.links.get(q, ()):
                one = (target, swapped != (kind == SWAPPED))
                if kind in (SAME, SWAPPED) and one not in found:
                    found.add(one)
                    pending.append(one)
        return found

    @property
    def size(self) -> int:
        """How many links there are."""
        return sum(map(len, self.links.values())) + sum(map(len, self.supers.values()))

    @property
    def properties(self) -> set[str]:
        """The properties that some axiom is about."""
        targets = {
            link.target for found in self.links.values() for link in found if link.kind in (SAME, SWAPPED)
        }
        return {*self.links, *targets, *self.transitive}

    @property
    def classes(self) -> set[str]:
        """The classes that some axiom is about."""
        targets = {
            link.target for found in self.links.values() for link in found if link.kind in (SUBJECT, OBJECT)
        }
        return {*self.supers, *(above for found in self.supers.values() for above in found), *targets}

    def as_text(self) -> str:
        """The axioms and rules as a text, from which `from_text` makes an equal schema."""
        lines = [",".join(self.rules)]
        for p, found in self.links.items():
            lines += [f"{kind}\t{p}\t{target}" for kind, target in found]
        lines += [f"C\t{c}\t{above}" for c, found in self.supers.items() for above in found]
        lines += [f"T\t{p}\t" for p in sorted(self.transitive)]
        return "\n".join([self.digest, *lines])

    @classmethod
    def from_text(cls, text: str) -> Schema:
        """The schema that `as_text` has written."""
        digest, rules, *lines = text.split("\n")
        links: dict[str, list[Link]] = {}
        supers: dict[str, list[str]] = {}
        transitive = set()
        for line in lines:
            kind, one, other = line.split("\t")
            if kind == "C":
                supers.setdefault(one, []).append(other)
            elif kind == "T":
                transitive.add(one)
            else:
                links.setdefault(one, []).append(Link(kind, other))
        return cls(
            digest,
            tuple(rules.split(",")),
            {p: tuple(found) for p, found in links.items()},
            {c: tuple(found) for c, found in supers.items()},
            frozenset(transitive),
        )


def schema_of(
    given: object, rules: str | Iterable[str] | None = None, *, format: str | None = None
) -> Schema:
    """The schema of what users give: the path of a file, RDF text (Turtle unless said otherwise), or a schema.

    What is ignored is warned of, once for each schema.
    """
    if isinstance(given, Schema):
        return given
    source, triples = read_triples(given, what="the schema", format=format)
    schema = Schema.of(triples, rules, source=source)
    if schema.ignored:
        total = sum(one.count for one in schema.ignored)
        shown = "; ".join(map(str, schema.ignored[:20]))
        more = f"; and {len(schema.ignored) - 20} more reasons" if len(schema.ignored) > 20 else ""
        axioms = "axiom is" if total == 1 else "axioms are"
        warn(f"{source}: {total:,} {axioms} ignored: {shown}{more}")
    elif not schema.size and not schema.transitive:
        warn(
            f"{source}: nothing follows from this schema: it states no axiom that leads from one term to another"
        )
    return schema


_PREDICATES = {
    f"<{RDFS}domain>": ("rdfs2",),
    f"<{RDFS}range>": ("rdfs3",),
    f"<{RDFS}subPropertyOf>": ("rdfs7",),
    f"<{RDFS}subClassOf>": ("rdfs9",),
    f"<{OWL}inverseOf>": ("owl:inverseOf",),
    f"<{OWL}equivalentClass>": ("owl:equivalentClass",),
    f"<{OWL}equivalentProperty>": ("owl:equivalentProperty",),
}
_TYPES = {
    f"<{OWL}SymmetricProperty>": ("owl:SymmetricProperty",),
    f"<{OWL}TransitiveProperty>": (TRANSITIVE,),
}
_VOCABULARIES = (f"<{RDFS}", f"<{OWL}")
_ANNOTATIONS = {
    *(f"<{RDFS}{name}>" for name in ("label", "comment", "seeAlso", "isDefinedBy")),
    *(f"<{OWL}{name}>" for name in ("versionInfo", "versionIRI", "priorVersion", "deprecated")),
    *(f"<{OWL}{name}>" for name in ("backwardCompatibleWith", "incompatibleWith")),
}
_DECLARATIONS = {
    *(f"<{RDFS}{name}>" for name in ("Class", "Datatype", "Resource", "Literal")),
    *(f"<{OWL}{name}>" for name in ("Class", "ObjectProperty", "DatatypeProperty", "AnnotationProperty")),
    *(f"<{OWL}{name}>" for name in ("Ontology", "NamedIndividual", "Thing", "DeprecatedClass")),
    *(f"<{OWL}{name}>" for name in ("DeprecatedProperty", "OntologyProperty")),
    f"<{RDF}Property>",
}


BLANK = "_:\x1f"
"""How a blank node of a schema begins: no node of the data does."""


def _apart(triple: Triple) -> Triple:
    """The triple with names for its blank nodes that no data has."""
    s, p, o = (BLANK + term[2:] if term.startswith("_:") else term for term in triple)
    return s, p, o


def _reason_to_ignore(triple: Triple, rules: tuple[str, ...]) -> str | None:
    """Why a triple states no axiom that is used; empty where it states none at all, None where it is used."""
    _, p, o = triple
    if p == TYPE:
        if o in _TYPES:
            needed = _TYPES[o]
        elif o in _DECLARATIONS or not o.startswith(_VOCABULARIES):
            return ""
        else:
            return f"{_short(o)} is not supported"
    elif p in _PREDICATES:
        needed = _PREDICATES[p]
    elif p in _ANNOTATIONS or not p.startswith(_VOCABULARIES):
        return ""
    elif p == f"<{OWL}sameAs>":
        return "owl:sameAs is not supported: it would replace terms in all triples"
    else:
        return f"{_short(p)} is not supported"
    if not set(needed) & set(rules):
        return f"{_short(o if p == TYPE else p)} needs the rule {needed[0]}, which was not asked for"
    if o.startswith('"'):
        kind = "property" if needed[0] in ("rdfs7", "owl:inverseOf", "owl:equivalentProperty") else "class"
        return f"a literal is no {kind}"
    return None


def _short(term: str) -> str:
    for prefix, name in (("rdfs:", RDFS), ("owl:", OWL)):
        if term.startswith(f"<{name}"):
            return prefix + term[len(name) + 1 : -1]
    return term


def _state(
    triple: Triple,
    links: dict[str, dict[Link, None]],
    supers: dict[str, dict[str, None]],
    transitive: set[str],
) -> None:
    """Enters the axiom of a triple. An axiom that leads from a thing to itself leads nowhere."""
    s, p, o = triple
    found: list[tuple[str, Link]] = []
    match p.rpartition("#")[2].removesuffix(">"):
        case "domain":
            found = [(s, Link(SUBJECT, o))]
        case "range":
            found = [(s, Link(OBJECT, o))]
        case "subPropertyOf":
            found = [(s, Link(SAME, o))]
        case "equivalentProperty":
            found = [(s, Link(SAME, o)), (o, Link(SAME, s))]
        case "inverseOf":
            found = [(s, Link(SWAPPED, o)), (o, Link(SWAPPED, s))]
        case "subClassOf" if s != o:
            supers.setdefault(s, {})[o] = None
        case "equivalentClass" if s != o:
            supers.setdefault(s, {})[o] = None
            supers.setdefault(o, {})[s] = None
        case "type" if o == f"<{OWL}SymmetricProperty>":
            found = [(s, Link(SWAPPED, s))]
        case "type":
            transitive.add(s)
    for one, link in found:
        if link != Link(SAME, one):
            links.setdefault(one, {})[link] = None
