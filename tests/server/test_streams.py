"""Streams over HTTP: every format, what is malformed, what is too large."""

from __future__ import annotations

import json
import threading
from urllib.parse import quote

import pytest
from websockets.sync.client import connect

from tests.server.serving import ALL, PAIRS, S, Served, triple

TURTLE = "@prefix : <http://ex/> . :a :p :b . :b :p :c ."
TRIG = """@prefix : <http://ex/> . @prefix prov: <http://www.w3.org/ns/prov#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:g prov:generatedAtTime "1970-01-01T00:00:05Z"^^xsd:dateTime . :g { :a :p :b . :b :p :c . }"""
NOON = '"1970-01-01T00:00:05Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
NQ = f"""<http://ex/g> <http://www.w3.org/ns/prov#generatedAtTime> {NOON} .
<http://ex/a> <http://ex/p> <http://ex/b> <http://ex/g> .
<http://ex/b> <http://ex/p> <http://ex/c> <http://ex/g> ."""
RDFXML = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://ex/">
<rdf:Description rdf:about="http://ex/a"><e:p rdf:resource="http://ex/b"/></rdf:Description>
<rdf:Description rdf:about="http://ex/b"><e:p rdf:resource="http://ex/c"/></rdf:Description></rdf:RDF>"""
JSONLD = json.dumps(
    [
        {"@id": "http://ex/a", "http://ex/p": {"@id": "http://ex/b"}},
        {"@id": "http://ex/b", "http://ex/p": {"@id": "http://ex/c"}},
    ]
)
LINES = json.dumps({"at": 5000, "graph": triple("a", "b") + triple("b", "c")}) + "\n"
UPDATE = (
    "INSERT DATA { <http://ex/a> <http://ex/p> <http://ex/b> . <http://ex/b> <http://ex/p> <http://ex/c> }"
)
PATCH = "TX .\nA <http://ex/a> <http://ex/p> <http://ex/b> .\nA <http://ex/b> <http://ex/p> <http://ex/c> .\nTC .\n"
BODIES = {
    "application/n-triples": triple("a", "b") + triple("b", "c"),
    "application/n-quads": NQ,
    "text/turtle": TURTLE,
    "application/trig": TRIG,
    "application/rdf+xml": RDFXML,
    "application/ld+json": JSONLD,
    "text/n3": TURTLE,
    "application/x-ndjson": LINES,
    "application/sparql-update; charset=utf-8": UPDATE,
    "application/rdf-patch": PATCH,
}


@pytest.mark.parametrize("kind", BODIES)
def test_events_come_in_each_format(served: Served, kind: str) -> None:
    id = served.client.register(PAIRS).json["id"]
    answer = served.client.post(BODIES[kind], at=5000, kind=kind)
    assert answer.status == 200, answer.data
    assert answer.json["triples"] >= 2
    assert answer.json["quarantined"] == answer.json["late"] == 0
    (row,) = served.client.results(id)
    assert row == {
        "id": 1,
        "at": "1970-01-01T00:00:05Z",
        "op": "+",
        "bindings": {"a": "<http://ex/a>", "c": "<http://ex/c>"},
    }


def test_rows_come_by_the_mapping_of_the_stream(served: Served) -> None:
    mapping = """
prefixes: {ex: "http://ex/"}
mappings:
  m:
    s: ex:$(s)
    po: [[ex:p, ex:$(o)~iri]]
"""
    assert served.client.stream(mapping=mapping).status == 200
    id = served.client.register(ALL).json["id"]
    assert served.client.post("s,o\na,b\nc,d\n", at=1, kind="text/csv").json["events"] == 2
    assert served.client.post('{"s": "e", "o": "f"}\n', at=2, kind="application/json").json["events"] == 1
    assert len(served.client.results(id)) == 3
    assert served.client.stream(mapping="mappings: 5").status == 400


def test_a_body_may_come_in_chunks(served: Served) -> None:
    served.client.stream()
    parts = (triple("a", n)[k : k + 7].encode() for n in range(9) for k in range(0, 80, 7))
    answer = served.client("POST", f"/streams/{quote(S, safe='')}", parts, "application/n-triples")
    assert (answer.status, answer.json["events"]) == (200, 9)


def test_events_without_a_time_have_that_of_their_arrival(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    served.client.post(triple("a", "b"))
    (row,) = served.client.results(id)
    assert row["at"] == "2001-09-09T01:46:40Z"


def test_blank_nodes_of_different_bodies_are_different(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    for _ in range(2):
        served.client.post("_:x <http://ex/p> <http://ex/o> .\n", at=1)
        served.client.post("[] <http://ex/p> <http://ex/o> .", at=1, kind="text/turtle")
    assert len({row["bindings"]["a"] for row in served.client.results(id)}) == 4


def test_malformed_events_are_quarantined_and_counted(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    text = triple("a", "b") + "what is this\n" + triple("c", "d")
    answer = served.client.post(text, at=1)
    assert answer.status == 202
    assert (answer.json["events"], answer.json["quarantined"]) == (2, 1)
    (reject,) = answer.json["rejects"]
    assert reject["line"] == 2
    assert len(served.client.results(id)) == 2
    page = served.client("GET", f"/streams/{quote(S, safe='')}").json
    assert (page["events"], page["quarantined"], page["rejects"][0]["text"]) == (2, 1, "what is this")
    strict = served.client.post(text, at=2, more="&strict=true")
    assert (strict.status, strict.json["line"]) == (400, 2)
    assert len(served.client.results(id)) == 2
    assert served.client("GET", "/streams").json["items"][0]["events"] == 2


def test_late_events_are_counted(served: Served) -> None:
    served.client.register(ALL)
    served.client.post(triple("a", "b"), at=10_000)
    assert served.client.post(triple("c", "d"), at=5_000).json["late"] == 1
    assert served.client("GET", f"/streams/{quote(S, safe='')}").json["watermark"] == "1970-01-01T00:00:10Z"


def test_a_watermark_can_be_set(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    served.client.post(triple("a", "b"), at=1000)
    assert served.client.post("", more="&advance=1970-01-01T00:00:11Z").status == 200
    assert [row["op"] for row in served.client.results(id)] == ["+", "-"]


def test_time_goes_on_in_a_stream_of_arrivals(served: Served) -> None:
    served.client.stream(clock="arrival")
    id = served.client.register(ALL).json["id"]
    served.client.post(triple("a", "b"), at=5)
    served.clock.now += 11_000
    served.service.tick()
    rows = served.client.results(id)
    assert [(row["op"], row["at"]) for row in rows] == [
        ("+", "2001-09-09T01:46:40Z"),
        ("-", "2001-09-09T01:46:50Z"),
    ]


def test_wrong_requests_are_refused_with_reasons(served: Served) -> None:
    client = served.client
    unknown = client.post(triple("a", "b"))
    assert (unknown.status, "PUT /streams" in unknown.json["error"]) == (404, True)
    client.stream()
    assert client.post("x", kind="application/pdf").status == 415
    assert client.post("x", kind="").status == 415
    assert client.post("s,o\n", kind="text/csv").status == 400
    assert client.post("", more="&at=noon").status == 400
    assert client.stream(retention="a while").status == 400
    assert client.stream(unknown=1).status == 400
    assert client("PUT", "/streams/not%20an%20iri", {}).status == 400
    packed = {"Content-Encoding": "gzip"}
    assert client("POST", f"/streams/{quote(S, safe='')}", b"x", "text/turtle", packed).status == 415
    assert client("DELETE", f"/streams/{quote(S, safe='')}").status == 204
    assert client("DELETE", f"/streams/{quote(S, safe='')}").status == 404


def test_a_stream_that_a_query_reads_stays(served: Served) -> None:
    served.client.register(ALL)
    assert served.client("DELETE", f"/streams/{quote(S, safe='')}").status == 409


def test_a_body_with_a_known_key_is_taken_once(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    path, key = f"/streams/{quote(S, safe='')}?at=1", {"Idempotency-Key": "one"}
    first = served.client("POST", path, triple("a", "b"), "application/n-triples", key)
    again = served.client("POST", path, triple("a", "b"), "application/n-triples", key)
    assert again.json == {**first.json, "repeated": True}
    assert len(served.client.results(id)) == 1


def test_messages_of_a_socket_are_bodies(served: Served) -> None:
    id = served.client.register(PAIRS).json["id"]
    address = f"ws://127.0.0.1:{served.running.port}/streams/{quote(S, safe='')}?at=7"
    headers = {"Authorization": f"Bearer {served.client.token}"}
    with connect(address, additional_headers=headers) as socket:
        socket.send(triple("a", "b"))
        socket.send(triple("b", "c").encode())
        socket.send("nonsense")
        answers = [json.loads(socket.recv()) for _ in range(3)]
    assert [one["events"] for one in answers] == [1, 1, 0]
    assert answers[2]["quarantined"] == 1
    assert len(served.client.results(id)) == 1


def test_bodies_that_wait_keep_their_terms_while_those_before_them_leave_the_windows(served: Served) -> None:
    id = served.client.register("SELECT ?a FROM STREAM <http://ex/s> [RANGE 1s] WHERE { ?a ?p ?b }").json[
        "id"
    ]
    waits, group = threading.Event(), []
    served.service.look(lambda state: waits.wait())  # what comes meanwhile is one group
    for k in range(12):
        body = "".join(triple(f"{'x' * 200}-{k}-{j}", "o") for j in range(500))
        operation = {"stream": S, "format": "nt", "per_event": None, "at": 10_000_000 * k}
        group.append(served.service.events(operation, body.encode()))
    waits.set()
    assert [one.result()["events"] for one in group] == [500] * 12
    assert served.client("GET", f"/queries/{id}").json["last"] == 23 * 500
