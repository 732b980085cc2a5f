"""A second judge of entailment: the closure of a graph by owlrl, a public reasoner, cut to what is answerable.

owlrl reads schema and data as one graph, so it also gives axioms, what follows from axioms as data, and the vocabulary
of OWL. `reasoned` leaves these out; with axioms about rdf:type, which apply to the triples of the schema there, what is
left is still a superset of ours. Literals and blank nodes are IRIs for the reasoner: the law derives in generalised
RDF, and says afterwards which triples are answerable.
"""

from __future__ import annotations

from collections.abc import Iterable

from owlrl import OWLRL_Semantics
from rdflib import Graph, URIRef

from thalweg.testing.entailment import A, ClosedOracle, is_answerable
from thalweg.testing.snapshot import Triple, hidden, shown

_VOCABULARIES = (
    "<http://www.w3.org/2000/01/rdf-schema#",
    "<http://www.w3.org/2002/07/owl#",
    "<http://www.w3.org/2001/XMLSchema#",
    "<http://www.daml.org/2002/03/agents/agent-ont#",  # owlrl's messages of errors
)
_RDF = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#"


def reasoned(schema: Iterable[Triple], data: Iterable[Triple]) -> set[Triple]:
    """What owlrl derives from data and a schema, without axioms and the vocabulary of RDFS and OWL."""
    graph = Graph()
    axioms = [triple for triple in schema if not triple[2].startswith('"')]
    for triple in (*axioms, *data):
        s, p, o = (URIRef(term[1:-1]) for term in hidden(triple, scope=""))
        graph.add((s, p, o))
    closure = OWLRL_Semantics(graph, axioms=False, daxioms=False, rdfs=False)
    closure.closure()
    found = {(_text(s), _text(p), _text(o)) for s, p, o in graph}
    return {triple for triple in found if is_answerable(triple) and not _is_vocabulary(triple)}


def _text(term: object) -> str:
    return shown(f"<{term}>") if isinstance(term, URIRef) else f'"{term}"'


def _is_vocabulary(triple: Triple) -> bool:
    return any(term.startswith(_VOCABULARIES) or (term.startswith(_RDF) and term != A) for term in triple)


class ReasonedOracle(ClosedOracle):
    """The snapshot oracle over contents that owlrl has closed."""

    def _closed(self, content: set[Triple]) -> set[Triple]:
        return reasoned(self.schema, content)
