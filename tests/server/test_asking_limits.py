"""Queries that take too much: they end, and stop neither the engine nor other questions."""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.serving import Answer, S, Served, serving, triple

HOSTILE = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l FILTER(?c != ?f && ?i != ?l) }"
LARGE = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"


def ask(client: Any, text: str) -> Answer:
    found: Answer = client("GET", f"/sparql?query={quote(text)}", headers={"Accept": "text/csv"})
    return found


def filled(served: Served, count: int) -> None:
    served.client.stream(retention="forever")
    served.client.post("".join(triple(n, n % 7) for n in range(count)), at=1)


def forks(served: Served) -> list[str]:
    """The processes that answer questions."""
    helper = served.running.app.state.content._replica.helper.pid
    return Path(f"/proc/{helper}/task/{helper}/children").read_text().split()


def test_a_query_that_takes_too_long_ends_and_stops_nobody(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        filled(served, 300)
        content = served.running.app.state.content
        usual = content.bounds
        assert ask(served.client, "SELECT (COUNT(*) AS ?n) { ?a ?b ?c }").data == b"n\r\n300\r\n"
        answers: list[Answer] = []
        slow = [
            threading.Thread(target=lambda: answers.append(ask(served.other(None), HOSTILE)))
            for _ in range(3)
        ]
        content.bounds = replace(usual, seconds=3.0)
        for thread in slow:
            thread.start()
        while len(forks(served)) < 3 and not answers:
            time.sleep(0.01)
        content.bounds = usual
        # The engine goes on, and so do other questions, which see what it has taken meanwhile.
        assert served.client.post(triple("x", "y"), at=2).status == 200
        assert ask(served.client, "SELECT (COUNT(*) AS ?n) { ?a ?b ?c }").data == b"n\r\n301\r\n"
        for thread in slow:
            thread.join(60)
        assert [answer.status for answer in answers] == [503] * 3
        assert "longer than 3 s" in answers[0].json["error"]
        while forks(served):
            time.sleep(0.01)
        assert ask(served.client, "ASK { ?a ?b ?c }").data == b"true"


def test_more_questions_at_once_than_allowed_are_429(served: Served) -> None:
    state = served.running.app.state
    assert ask(served.client, "ASK {}").status == 200
    assert state.questions == 0
    state.questions = 4
    answer = ask(served.client, "ASK {}")
    assert (answer.status, "retry-after" in answer.headers) == (429, True)
    state.questions = 0
    assert ask(served.client, "ASK {}").status == 200


@pytest.mark.parametrize(
    ("limits", "count", "status", "reason"),
    [
        ({"ask_memory": 64 << 20}, 120, 503, "memory"),
        ({"ask_bytes": 10_000, "ask_memory": 4 << 30}, 10, 400, "LIMIT"),
    ],
)
def test_an_answer_that_is_too_large_is_refused(
    tmp_path: Path, limits: dict[str, int], count: int, status: int, reason: str
) -> None:
    with serving(tmp_path, limits=limits) as served:
        filled(served, count)
        answer = ask(served.client, LARGE)
        assert (answer.status, reason in answer.json["error"]) == (status, True), answer.data
        assert ask(served.client, "ASK {}").status == 200


def test_a_helper_process_that_is_killed_is_replaced(served: Served) -> None:
    filled(served, 5)
    count = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c }"
    assert ask(served.client, count).data == b"n\r\n5\r\n"
    content = served.running.app.state.content
    os.kill(content._replica.helper.pid, 9)
    served.client.post(triple("x", "y"), at=2)
    assert ask(served.client, count).data == b"n\r\n6\r\n"


def test_a_query_opens_neither_files_nor_connections(served: Served) -> None:
    filled(served, 1)
    for text in (
        "SELECT * { SERVICE <http://127.0.0.1:7/> { ?s ?p ?o } }",
        "SELECT * { \\u0053ERVICE <http://127.0.0.1:7/> { ?s ?p ?o } }",
        "SELECT * { {SERVICE<http://127.0.0.1:7/>{ ?s ?p ?o }} }",
        "SELECT * { SERVICE SILENT ?x { ?s ?p ?o } }",
    ):
        assert ask(served.client, text).status == 400, text
    assert ask(served.client, f"SELECT * FROM <file:///etc/passwd> FROM <{S}> {{ ?a ?b ?c }}").status == 200


@pytest.mark.parametrize("path", ["/sparql", "/store/sparql"])
def test_bodies_of_questions_are_bounded(tmp_path: Path, path: str) -> None:
    with serving(tmp_path, limits={"body": 1000, "body_seconds": 0.3}) as served:
        kind = "application/sparql-query"
        assert served.client("POST", path, "ASK {} #" + "x" * 1000, kind).status == 413
        chunks = (b"x" * 100 for _ in range(11))
        assert served.client("POST", path, chunks, kind).status == 413
        with socket.create_connection(("127.0.0.1", served.running.port)) as slow:
            slow.sendall(
                f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
                "Content-Length: 900\r\n\r\nA".encode()
            )
            slow.settimeout(20)
            assert b" 408 " in slow.recv(1000)
        wrong = f"{path}?query=%ff%fe"
        assert served.client("GET", wrong).status == 400


def test_nobody_asks_without_a_token_elsewhere_than_on_this_machine(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {'r' * 20}\nwrite {'w' * 20}\n")
    with serving(tmp_path / "data", tokens=tokens, host="0.0.0.0") as served:
        nobody, reader = served.other(None), served.other("r" * 20)
        for path in (
            "/sparql",
            "/graphs?default",
            "/store",
            "/store/sparql",
            "/store/sparql?query=ASK%7B%7D",
        ):
            for method in ("GET", "POST"):
                if method == "POST" and "sparql" not in path:
                    continue
                assert nobody(method, path, None, "application/sparql-query").status == 401, path
        assert reader("GET", "/sparql?query=ASK%7B%7D").status == 200
        update = "INSERT DATA { GRAPH <http://ex/s> { <a:a> <a:b> 1 } }"
        assert reader("POST", "/sparql", update, "application/sparql-update").status == 403
        forged = {"X-HTTP-Method-Override": "PUT", "X-Forwarded-Host": "localhost", "Authorization": "Bearer"}
        assert nobody("GET", "/store", headers=forged).status == 401
