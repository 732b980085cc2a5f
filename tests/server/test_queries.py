"""Queries over HTTP: registration, shared plans, leases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.server.serving import ALL, PAIRS, Clock, Served, serving, triple
from thalweg.errors import QueryError
from thalweg.lang import parse
from thalweg.server.canonical import canonical


def test_a_query_is_registered_listed_inspected_and_dropped(served: Served) -> None:
    client = served.client
    made = client.register(PAIRS)
    assert made.status == 201
    id = made.json["id"]
    assert made.headers["location"] == f"/queries/{id}"
    assert made.json["columns"] == ["a", "c"]
    client.post(triple("a", "b") + triple("b", "c"), at=1)
    page = client("GET", f"/queries/{id}").json
    assert "RANGE 10s" in page["explain"]
    assert page["state"]["window_bytes"] > 0
    assert page["watermarks"] == {"http://ex/s": "1970-01-01T00:00:00.001Z"}
    assert page["last"] == 1
    assert client("GET", f"/queries/{id}/answer").json["rows"] == [
        {"a": "<http://ex/a>", "c": "<http://ex/c>"}
    ]
    assert [one["id"] for one in client("GET", "/queries").json["items"]] == [id]
    assert client("DELETE", f"/queries/{id}").status == 204
    assert client("GET", f"/queries/{id}").status == client("DELETE", f"/queries/{id}").status == 404
    assert served.state.session.queries == []


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("SELECT ?x FROM STREAM <http://ex/s> [RANGE 1s]\nWHERE { ?x ex:p ?y }", 2, 12),
        ("SELECT ?x FROM STREAM <http://ex/s> [RANGE x] WHERE { ?x ?p ?y }", 1, None),
        ("", None, None),
    ],
)
def test_a_wrong_query_has_a_place(served: Served, text: str, line: int | None, column: int | None) -> None:
    answer = served.client.register(text)
    assert answer.status == 400, answer.data
    assert line is None or answer.json["line"] == line
    assert column is None or answer.json["column"] == column
    assert answer.json["error"]


def test_equal_queries_share_a_plan_whatever_their_variables_are_called(served: Served) -> None:
    renamed = """PREFIX e: <http://ex/>  # the same
        SELECT ?x ?z FROM STREAM e:s [RANGE 10000ms] WHERE { ?x e:p ?y . ?y e:p ?z }"""
    swapped = "SELECT ?c ?a FROM STREAM <http://ex/s> [RANGE 10s] WHERE { ?a <http://ex/p> ?b . ?b <http://ex/p> ?c }"
    one, two, three = (served.client.register(text).json for text in (PAIRS, renamed, swapped))
    assert one["plan"] == two["plan"] != three["plan"]
    assert two["shared_with"] == 1
    assert len(served.state.session.queries) == 2
    served.client.post(triple("a", "b") + triple("b", "c"), at=1)
    assert served.client.results(one["id"])[0]["bindings"] == {"a": "<http://ex/a>", "c": "<http://ex/c>"}
    assert served.client.results(two["id"])[0]["bindings"] == {"x": "<http://ex/a>", "z": "<http://ex/c>"}
    # What comes from now on is another answer than what came since the first one.
    assert served.client.register(PAIRS).json["plan"] not in (one["plan"], three["plan"])
    served.client("DELETE", f"/queries/{one['id']}")
    served.client.post(triple("c", "d"), at=2)
    assert len(served.client.results(two["id"])) == 2


def test_a_literal_with_a_question_mark_is_no_variable(served: Served) -> None:
    text = 'SELECT ?a FROM STREAM <http://ex/s> [RANGE 10s] WHERE { ?a <http://ex/p?a> "is ?a" }'
    other = text.replace('"is ?a"', '"is ?b"')
    one, two = served.client.register(text).json, served.client.register(other).json
    assert one["plan"] != two["plan"]
    served.client.post('<http://ex/s> <http://ex/p?a> "is ?a" .', at=1)
    assert len(served.client.results(one["id"])) == 1
    assert served.client.results(two["id"]) == []


def test_a_query_begins_with_the_content_of_retained_streams(served: Served) -> None:
    served.client.stream(retention="forever")
    served.client.post(triple("a", "b"), at=1000)
    assert served.client.results(served.client.register(ALL).json["id"]) == []
    id = served.client.register(ALL, start="content").json["id"]
    assert [row["bindings"]["a"] for row in served.client.results(id)] == ["<http://ex/a>"]
    other = "SELECT ?a FROM STREAM <http://ex/other> [RANGE 10s] WHERE { ?a <http://ex/p> ?b }"
    refused = served.client.register(other, start="content")
    assert (refused.status, "retain" in refused.json["error"]) == (400, True)


def test_a_query_sees_a_schema_and_static_data(served: Served) -> None:
    client = served.client
    static = "<http://ex/b> <http://ex/name> 'Bob' ."
    assert client("PUT", "/static?graph=http://ex/names", static, "text/turtle").json["triples"] == 1
    text = """SELECT ?n FROM STREAM <http://ex/s> [RANGE 10s] FROM NAMED <http://ex/names>
        WHERE { ?a <http://ex/q> ?b GRAPH <http://ex/names> { ?b <http://ex/name> ?n } }"""
    schema = "<http://ex/p> <http://www.w3.org/2000/01/rdf-schema#subPropertyOf> <http://ex/q> ."
    made = client.register(text, schema=schema)
    assert made.status == 201, made.data
    client.post(triple("a", "b"), at=1)
    assert [row["bindings"] for row in client.results(made.json["id"])] == [{"n": '"Bob"'}]
    assert client("GET", "/static").json["items"] == [{"graph": "http://ex/names"}]


def test_a_derived_stream_takes_no_events(served: Served) -> None:
    made = served.client.register(
        "REGISTER RSTREAM <http://ex/s> AS CONSTRUCT { ?a <http://ex/q> ?b } "
        "FROM NAMED WINDOW <http://ex/w> ON <http://ex/in> [RANGE PT10S STEP PT1S] "
        "WHERE { WINDOW <http://ex/w> { ?a <http://ex/p> ?b } }"
    )
    assert made.status == 201, made.data
    assert served.client.post(triple("a", "b"), at=1).status == 409


def test_leases_end_are_renewed_and_free_memory(served: Served) -> None:
    client, clock = served.client, served.clock
    short = client.register(PAIRS, lease="10s").json["id"]
    long = client.register(ALL, lease="1m").json["id"]
    client.post("".join(triple(n, n + 1) for n in range(2000)), at=1)
    before = served.state.session.nbytes
    clock.now += 9_000
    served.service.tick()
    assert client("PUT", f"/queries/{short}/lease", {}).status == 200
    clock.now += 9_000
    served.service.tick()
    assert client("GET", f"/queries/{short}").status == 200
    clock.now += 2_000
    served.service.tick()
    assert client("GET", f"/queries/{short}").status == 404
    assert client("PUT", f"/queries/{short}/lease", {"lease": "1h"}).status == 404
    assert client("GET", f"/queries/{long}").json["expires"] == "2001-09-09T01:47:40Z"
    assert client("PUT", f"/queries/{long}/lease", {"lease": "5m"}).json["lease"] == "300000ms"
    clock.now += 299_000
    served.service.tick()
    assert client("GET", f"/queries/{long}").status == 200
    clock.now += 2_000
    served.service.tick()
    assert client("GET", "/queries").json["count"] == 0
    assert served.state.session.nbytes < before / 2


def test_a_wrong_lease_is_refused(served: Served) -> None:
    for lease in ("0s", "soon", "1000d", "-5s"):
        assert served.client.register(ALL, lease=lease).status == 400


def test_subscribers_get_to_know_that_a_lease_has_ended(served: Served) -> None:
    id = served.client.register(ALL, lease="10s").json["id"]
    served.client.post(triple("a", "b"), at=1)
    events = served.client.events(id)
    assert next(events)["id"] == "1"
    served.clock.now += 10_000
    served.service.tick()
    assert next(events) == {"event": "end", "data": '{"reason": "expired"}'}


def test_there_is_a_limit_of_queries(tmp_path: Path) -> None:
    with serving(tmp_path, limits={"queries": 2}) as served:
        assert [served.client.register(ALL).status for _ in range(3)] == [201, 201, 429]


def test_a_lease_ends_while_nothing_comes(tmp_path: Path) -> None:
    with serving(tmp_path, clock=Clock()) as served:
        served.client.register(ALL, lease="10ms")
        served.clock.now += 10
        for _ in range(200):
            if not served.state.queries:
                break
            served.client("GET", "/health")
        assert not served.state.queries


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM STREAM <http://ex/s> WHERE { ?z <http://ex/p> ?b . ?b <http://ex/q> ?a }",
        "SELECT ?z (COUNT(*) AS ?n) FROM STREAM <http://ex/s> WHERE { ?z ?p ?b } GROUP BY ?z",
        "SELECT ?v1 ?v0 FROM STREAM <http://ex/s> WHERE { ?v0 <http://ex/p> ?v1 }",
        "SELECT ?c ?a FROM STREAM <http://ex/s> WHERE { ?a ?p ?b { SELECT * WHERE { ?b ?q ?c } } }",
        "CONSTRUCT { ?b <http://ex/q> ?a } FROM STREAM <http://ex/s> WHERE { ?a <http://ex/p> ?b }",
        "ASK FROM STREAM <http://ex/s> WHERE { ?a ?p ?b }",
    ],
)
def test_columns_are_those_of_the_text_in_their_order(text: str) -> None:
    found = canonical(text, stream=None, graphs=[])
    assert [own for own, _ in found.columns] == list(parse(text).columns)
    assert {name for _, name in found.columns} == set(found.query.columns)


def test_a_text_is_parsed_once_in_a_registration(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []

    def counted(text: str, **given: Any) -> Any:
        parsed.append(text)
        return parse(text, **given)

    monkeypatch.setattr("thalweg.server.canonical.parse", counted)
    for k in range(3):
        assert served.client.register(PAIRS.replace("?a", f"?a{k}")).status == 201
        assert len(parsed) == k + 1
    wrong = "SELECT ?long ?x FROM STREAM <http://ex/s> [RANGE 1s] WHERE { ?long <http://ex/p> ?x . ?x }"
    refused = served.client.register(wrong)
    with pytest.raises(QueryError) as error:
        parse(wrong)
    assert (refused.status, refused.json["column"]) == (400, error.value.column)
