"""The judge of entailment: the closure of a graph by the rules as they are defined, applied until nothing is new.

It shares no code with `thalweg.schema`: triples of texts, one rule after the other, all pairs of axioms and triples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from thalweg.testing.snapshot import Event, Oracle, Question, Row, Triple, hidden, shown

_RDF, _RDFS, _OWL = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2002/07/owl#",
)
A = f"<{_RDF}type>"
DOMAIN, RANGE = f"<{_RDFS}domain>", f"<{_RDFS}range>"
SUB_PROPERTY, SUB_CLASS = f"<{_RDFS}subPropertyOf>", f"<{_RDFS}subClassOf>"
INVERSE, SYMMETRIC = f"<{_OWL}inverseOf>", f"<{_OWL}SymmetricProperty>"
SAME_CLASS, SAME_PROPERTY = f"<{_OWL}equivalentClass>", f"<{_OWL}equivalentProperty>"
TRANSITIVE = f"<{_OWL}TransitiveProperty>"
ALL_RULES = frozenset(
    [
        *("rdfs2", "rdfs3", "rdfs5", "rdfs7", "rdfs9", "rdfs11", "owl:inverseOf"),
        *("owl:SymmetricProperty", "owl:equivalentClass", "owl:equivalentProperty"),
    ]
)


def closed(schema: Iterable[Triple], data: Iterable[Triple], rules: Iterable[str] = ALL_RULES) -> set[Triple]:
    """The triples that follow from `data` by the axioms of `schema`, and that are answerable.

    The schema's blank nodes are written `_:schema...`, which no node of the data is.
    """
    chosen = set(rules)
    axioms = _closed_axioms({triple for triple in schema if not triple[2].startswith('"')}, chosen)
    found = set(data)
    while True:
        new = set(_steps(axioms, found, chosen)) - found
        if not new:
            return {triple for triple in found if is_answerable(triple)}
        found |= new


def _closed_axioms(axioms: set[Triple], rules: set[str]) -> set[Triple]:
    while True:
        new = {
            (p, verb, r)
            for rule, verb in (("rdfs5", SUB_PROPERTY), ("rdfs11", SUB_CLASS))
            if rule in rules
            for p, one, q in axioms
            for other_q, two, r in axioms
            if one == two == verb and q == other_q
        }
        if new <= axioms:
            return axioms
        axioms = axioms | new


def _steps(axioms: set[Triple], data: set[Triple], rules: set[str]) -> Iterator[Triple]:
    for one, verb, other in axioms:
        for x, p, y in data:
            if verb == DOMAIN and "rdfs2" in rules and p == one:
                yield x, A, other
            if verb == RANGE and "rdfs3" in rules and p == one:
                yield y, A, other
            if verb == SUB_PROPERTY and "rdfs7" in rules and p == one:
                yield x, other, y
            if verb == SUB_CLASS and "rdfs9" in rules and p == A and y == one:
                yield x, A, other
            if verb == INVERSE and "owl:inverseOf" in rules and p in (one, other):
                yield y, other if p == one else one, x
                if p == other:
                    yield y, one, x
            if verb == A and other == SYMMETRIC and "owl:SymmetricProperty" in rules and p == one:
                yield y, p, x
            if verb == SAME_CLASS and "owl:equivalentClass" in rules and p == A and y in (one, other):
                yield x, A, other if y == one else one
            if verb == SAME_PROPERTY and "owl:equivalentProperty" in rules and p in (one, other):
                yield x, other if p == one else one, y
        if verb == A and other == TRANSITIVE and "transitive" in rules:
            edges = [(x, y) for x, p, y in data if p == one]
            yield from ((x, one, z) for x, y in edges for other_y, z in edges if y == other_y)


def is_answerable(triple: Triple) -> bool:
    """Whether a triple is one of RDF 1.1 that names no blank node of the schema."""
    s, p, o = triple
    return (
        not s.startswith('"')
        and p.startswith("<")
        and not any(term.startswith("_:schema") for term in (s, o))
    )


class ClosedOracle(Oracle):
    """The snapshot oracle over contents that are closed under a schema."""

    def __init__(
        self,
        question: Question,
        events: Sequence[Event],
        schema: Sequence[Triple],
        rules: Iterable[str] = ALL_RULES,
        *,
        stable: bool = False,
    ) -> None:
        super().__init__(question, events, stable=stable)
        self.schema = schema
        self.rules = frozenset(rules)

    def _ask(self, contents: Iterable[frozenset[Triple]]) -> Counter[Row]:
        plain = ({(shown(s), shown(p), shown(o)) for s, p, o in content} for content in contents)
        return super()._ask(
            frozenset(hidden(triple, scope="") for triple in self._closed(content)) for content in plain
        )

    def _closed(self, content: set[Triple]) -> set[Triple]:
        return closed(self.schema, content, self.rules)
