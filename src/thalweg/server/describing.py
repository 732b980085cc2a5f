"""The service description of SPARQL 1.1: what an endpoint offers, as RDF."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyoxigraph as ox

_SD = "http://www.w3.org/ns/sparql-service-description#"
_FORMATS = "http://www.w3.org/ns/formats/"
_TYPE = ox.NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_OFFERED = (
    *("SPARQL_Results_JSON", "SPARQL_Results_XML", "SPARQL_Results_CSV", "SPARQL_Results_TSV"),
    *("N-Triples", "Turtle", "RDF_XML", "JSON-LD"),
)


def description(endpoint: str, graphs: Iterable[str], media: str) -> bytes:
    """The description of an endpoint with some named graphs."""
    format = ox.RdfFormat.from_media_type(media)
    assert format is not None
    prefixes = {"sd": _SD, "formats": _FORMATS}
    return ox.serialize(_triples(endpoint, graphs), format=format, prefixes=prefixes) or b""


def _triples(endpoint: str, graphs: Iterable[str]) -> Iterator[ox.Triple]:
    service, dataset, default = ox.BlankNode("service"), ox.BlankNode("dataset"), ox.BlankNode("default")
    yield ox.Triple(service, _TYPE, _sd("Service"))
    yield ox.Triple(service, _sd("endpoint"), ox.NamedNode(endpoint))
    yield ox.Triple(service, _sd("supportedLanguage"), _sd("SPARQL11Query"))
    for name in _OFFERED:
        yield ox.Triple(service, _sd("resultFormat"), ox.NamedNode(_FORMATS + name))
    yield ox.Triple(service, _sd("defaultDataset"), dataset)
    yield ox.Triple(dataset, _TYPE, _sd("Dataset"))
    yield ox.Triple(dataset, _sd("defaultGraph"), default)
    yield ox.Triple(default, _TYPE, _sd("Graph"))
    for number, name in enumerate(graphs):
        graph = ox.BlankNode(f"graph{number}")
        yield ox.Triple(dataset, _sd("namedGraph"), graph)
        yield ox.Triple(graph, _TYPE, _sd("NamedGraph"))
        yield ox.Triple(graph, _sd("name"), named_node(name))


def named_node(iri: str) -> Any:
    """The node of an IRI that the session has accepted; pyoxigraph itself would check more of it."""
    (quad,) = ox.parse(f"<i:i> <i:i> <{iri}> .", ox.RdfFormat.N_TRIPLES, lenient=True)
    return quad.object


def _sd(name: str) -> ox.NamedNode:
    return ox.NamedNode(_SD + name)
