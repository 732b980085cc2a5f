"""The same triples in every format, and parsers of others for the same bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyoxigraph as ox

Parse = Callable[[bytes], object]


@dataclass(frozen=True)
class Sample:
    """The triples of the suite in a format, another parser for it, and rdflib's name of it."""

    format: str
    suffix: str
    make: Callable[[list[ox.Triple]], bytes]
    rival: tuple[str, Parse] | None = None
    """The name of another parser, and a function that parses with it."""
    rdflib: str | None = None
    target: float | None = None
    """How many times the rate of the other parser is wanted."""


def _oxigraph(format: ox.RdfFormat) -> tuple[str, Parse]:
    return "pyoxigraph.parse", lambda content: [None for _ in ox.parse(content, format=format)]


def _in_graphs(triples: list[ox.Triple], size: int = 1000) -> list[ox.Quad]:
    """The triples in named graphs, each with its time."""
    quads = []
    stamp = ox.NamedNode("http://www.w3.org/ns/prov#generatedAtTime")
    for start in range(0, len(triples), size):
        graph = ox.NamedNode(f"http://example.org/graph/{start}")
        quads.append(ox.Quad(graph, stamp, ox.Literal(str(start))))
        quads += [ox.Quad(t.subject, t.predicate, t.object, graph) for t in triples[start : start + size]]
    return quads


def _serialised(format: ox.RdfFormat, graphs: bool = False) -> Callable[[list[ox.Triple]], bytes]:
    def make(triples: list[ox.Triple]) -> bytes:
        return ox.serialize(_in_graphs(triples) if graphs else triples, format=format) or b""

    return make


def _hundreds(triples: list[ox.Triple]) -> Iterator[list[bytes]]:
    """The triples as lines of N-Triples, a hundred at a time."""
    lines = (ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES) or b"").splitlines()
    for start in range(0, len(lines), 100):
        yield lines[start : start + 100]


def _patch(triples: list[ox.Triple]) -> bytes:
    """A patch that inserts the triples, a hundred in a transaction, and deletes a fifth of them again."""
    out = io.BytesIO()
    for part in _hundreds(triples):
        out.write(b"TX .\n" + b"".join(b"A " + line + b"\n" for line in part))
        out.write(b"".join(b"D " + line + b"\n" for line in part[::5]) + b"TC .\n")
    return out.getvalue()


def _update(triples: list[ox.Triple]) -> bytes:
    """Operations that insert a hundred triples each."""
    return b" ;\n".join(b"INSERT DATA {\n" + b"\n".join(part) + b"\n}" for part in _hundreds(triples))


def _json_lines(triples: list[ox.Triple]) -> bytes:
    """Events of a hundred triples each, in N-Triples."""
    events = (
        {"at": number, "format": "nt", "graph": b"\n".join(part).decode()}
        for number, part in enumerate(_hundreds(triples))
    )
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def _jelly(triples: list[ox.Triple]) -> bytes:
    """Jelly as pyjelly writes it."""
    from pyjelly.integrations.generic.generic_sink import IRI, BlankNode, Literal, Triple
    from pyjelly.integrations.generic.serialize import flat_stream_to_file

    def term(given: Any) -> Any:
        if isinstance(given, ox.NamedNode):
            return IRI(given.value)
        if isinstance(given, ox.BlankNode):
            return BlankNode(given.value)
        return Literal(given.value, given.language, None if given.language else given.datatype.value)

    out = io.BytesIO()
    flat_stream_to_file((Triple(term(t.subject), term(t.predicate), term(t.object)) for t in triples), out)
    return out.getvalue()


def _by_pyjelly(content: bytes) -> object:
    from pyjelly.integrations.generic.parse import parse_jelly_flat

    return [None for _ in parse_jelly_flat(io.BytesIO(content))]


_F = ox.RdfFormat
SAMPLES = (
    Sample("nt", ".nt", _serialised(_F.N_TRIPLES), _oxigraph(_F.N_TRIPLES), "nt", 5),
    Sample("nq", ".nq", _serialised(_F.N_QUADS, graphs=True), _oxigraph(_F.N_QUADS), "nquads", 5),
    Sample("turtle", ".ttl", _serialised(_F.TURTLE), _oxigraph(_F.TURTLE), "turtle", 1),
    Sample("trig", ".trig", _serialised(_F.TRIG, graphs=True), _oxigraph(_F.TRIG), "trig", 1),
    Sample("n3", ".n3", _serialised(_F.TURTLE), _oxigraph(_F.N3), "n3"),
    Sample("rdfxml", ".rdf", _serialised(_F.RDF_XML), _oxigraph(_F.RDF_XML), "xml"),
    Sample("jsonld", ".jsonld", _serialised(_F.JSON_LD), _oxigraph(_F.JSON_LD), "json-ld"),
    Sample("rdfp", ".rdfp", _patch),
    Sample("ru", ".ru", _update),
    Sample("jsonl", ".jsonl", _json_lines),
    Sample("jelly", ".jelly", _jelly, ("pyjelly", _by_pyjelly)),
)

TAXI_COLUMNS = (
    *("medallion", "hack_license", "pickup_datetime", "dropoff_datetime", "trip_time_in_secs"),
    *("trip_distance", "pickup_longitude", "pickup_latitude", "dropoff_longitude", "dropoff_latitude"),
    *("payment_type", "fare_amount", "surcharge", "mta_tax", "tip_amount", "tolls_amount", "total_amount"),
)
TAXI_MAPPING = f"""
mappings:
  trip:
    s: http://example.org/trip/$(medallion)-$(pickup_datetime)
    po:
      - [a, http://example.org/taxi#Trip]
      - [http://example.org/taxi#cab, http://example.org/cab/$(medallion)~iri]
      - [http://example.org/taxi#from, $(pickup_longitude) $(pickup_latitude)]
      - [http://example.org/taxi#to, $(dropoff_longitude) $(dropoff_latitude)]
      - [http://example.org/taxi#payment, $(payment_type)]
      - [http://example.org/taxi#fare, $(fare_amount), xsd:decimal]
      - [http://example.org/taxi#tip, $(tip_amount), xsd:decimal]
      - [http://example.org/taxi#miles, $(trip_distance), xsd:decimal]
event:
  time: $(dropoff_datetime)
  format: "%Y-%m-%d %H:%M:%S"
  zone: UTC
rows:
  columns: [{", ".join(TAXI_COLUMNS)}]
"""
"""Eight triples of a trip of the DEBS 2015 challenge."""
