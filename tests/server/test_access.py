"""Who may do what, limits, and tricks."""

from __future__ import annotations

import os
import socket
import stat
import time
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.server.serving import ALL, Served, serving, triple

READ, WRITE = "r" * 20, "w" * 20


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"# two\nread {READ}\nwrite {WRITE}\n")
    return path


WRITES = [
    ("PUT", "/streams/http:%2F%2Fex%2Fs"),
    ("POST", "/streams/http:%2F%2Fex%2Fs"),
    ("DELETE", "/streams/http:%2F%2Fex%2Fs"),
    ("POST", "/queries"),
    ("DELETE", "/queries/x"),
    ("PUT", "/queries/x/lease"),
    ("PUT", "/static"),
    ("POST", "/static"),
]


def test_nobody_writes_without_a_token(served: Served) -> None:
    for method, path in WRITES:
        for token in (None, "x" * 30):
            answer = served.other(token)(method, path, {}, "text/turtle")
            assert answer.status == 401, (method, path, answer.data)
            assert answer.headers["www-authenticate"] == "Bearer"
    assert served.state.streams == {}
    nobody = served.other(None)
    assert nobody("GET", "/queries").status == nobody("GET", "/streams").status == 200
    mode = os.stat(served.service.folder.path / "token").st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_a_token_to_read_does_not_write(tmp_path: Path, tokens: Path) -> None:
    with serving(tmp_path / "data", tokens=tokens) as served:
        reader, writer = served.other(READ), served.other(WRITE)
        assert all(reader(method, path, {}).status == 403 for method, path in WRITES)
        assert reader("GET", "/queries").status == 200
        assert writer.register(ALL).status == 201


def test_another_address_needs_a_token_to_read(tmp_path: Path, tokens: Path) -> None:
    with serving(tmp_path / "data", tokens=tokens, host="0.0.0.0") as served:
        nobody = served.other(None)
        for path in ("/queries", "/streams", "/metrics", "/sparql?query=ASK%7B%7D", "/graphs?default"):
            assert nobody("GET", path).status == 401
        assert nobody("GET", "/health").status == 200
        assert served.other(READ)("GET", "/queries").status == 200


def test_tricks_with_headers_and_paths_do_not_help(served: Served) -> None:
    client, nobody = served.client, served.other(None)
    # A name of someone else that points to this machine.
    assert nobody("GET", "/queries", headers={"Host": "evil.example"}).status == 403
    assert client("GET", "/queries", headers={"Host": "evil.example:80"}).status == 403
    for given in ("Basic abc", "Bearer", "bearer ", "Bearer \xe4", f"Token {client.token}"):
        assert nobody("POST", "/queries", {"query": ALL}, headers={"Authorization": given}).status == 401
    for path in ("/queries/../streams", "/queries/%2e%2e/%2e%2e/etc/passwd", "//queries", "/queries/%00"):
        assert nobody("GET", path).status in (200, 400, 404), path
    assert nobody("POST", "/queries/x/../../queries", {"query": ALL}).status in (401, 404, 405)
    forged = {"X-HTTP-Method-Override": "DELETE", "X-Forwarded-For": "127.0.0.1"}
    assert nobody("POST", "/queries", {"query": ALL}, headers=forged).status == 401
    assert client("PUT", "/streams/http:%2F%2Fex%2F%0d%0aSet-Cookie:x", {}).status in (400, 404)


def test_a_schema_or_static_data_is_never_the_name_of_a_file(served: Served, tmp_path: Path) -> None:
    secret = tmp_path / "secret.ttl"
    secret.write_text("<http://ex/p> <http://www.w3.org/2000/01/rdf-schema#subPropertyOf> <http://ex/q> .")
    assert served.client.register(ALL, schema=str(secret)).status == 400
    assert served.client("PUT", "/static", str(secret), "text/turtle").status == 400
    named = served.client.register(str(secret))
    assert (named.status, "file" in named.json["error"]) == (400, False)


def test_pages_of_others_open_no_socket(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    address = f"ws://127.0.0.1:{served.running.port}"
    headers = {"Authorization": f"Bearer {served.client.token}"}
    for path in (f"/queries/{id}/results", "/streams/http:%2F%2Fex%2Fs"):
        with (
            pytest.raises(InvalidStatus),
            connect(address + path, origin="http://evil.example", additional_headers=headers),
        ):
            pass
    with pytest.raises(InvalidStatus), connect(f"{address}/streams/http:%2F%2Fex%2Fs"):
        pass


def test_large_bodies_are_refused_before_they_are_read(tmp_path: Path) -> None:
    with serving(tmp_path, limits={"body": 1000}) as served:
        served.client.stream()
        assert served.client.post("x" * 1001).status == 413
        chunks = (b"x" * 100 for _ in range(11))
        assert served.client("POST", "/streams/http:%2F%2Fex%2Fs", chunks, "text/turtle").status == 413
        with socket.create_connection(("127.0.0.1", served.running.port)) as one:
            head = f"Authorization: Bearer {served.client.token}\r\nContent-Type: text/turtle\r\n"
            one.sendall(
                f"POST /streams/http:%2F%2Fex%2Fs HTTP/1.1\r\nHost: localhost\r\n{head}"
                "Content-Length: 99999999999\r\n\r\n".encode()
            )
            assert b" 413 " in one.recv(1000)
        assert served.client.post(triple("a", "b"), at=1).status == 200


def test_a_body_that_drips_is_cut_off_and_stops_nobody(tmp_path: Path) -> None:
    with serving(tmp_path, limits={"body_seconds": 0.3}) as served:
        served.client.stream()
        head = f"Authorization: Bearer {served.client.token}\r\nContent-Type: text/turtle\r\n"
        with socket.create_connection(("127.0.0.1", served.running.port)) as slow:
            slow.sendall(
                f"POST /streams/http:%2F%2Fex%2Fs HTTP/1.1\r\nHost: localhost\r\n{head}"
                "Content-Length: 1000\r\n\r\n<".encode()
            )
            began = time.monotonic()
            assert served.client.post(triple("a", "b"), at=1).status == 200
            slow.settimeout(10)
            assert b" 408 " in slow.recv(1000)
            assert time.monotonic() - began < 5


def test_a_head_that_drips_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.server.running._HEADER_SECONDS", 0.3)
    with serving(tmp_path) as served, socket.create_connection(("127.0.0.1", served.running.port)) as slow:
        slow.settimeout(10)
        slow.sendall(b"GET /health HTTP/1.1\r\nHost: loc")
        assert slow.recv(100) == b""
        assert served.client("GET", "/health").status == 200


def test_more_events_than_allowed_are_429(tmp_path: Path) -> None:
    with serving(tmp_path, limits={"events_per_second": 50}) as served:
        served.client.stream()
        statuses = [served.client.post(triple(n, n) * 20, at=n).status for n in range(6)]
        assert statuses[:2] == [200, 200]
        assert 429 in statuses
        refused = next(
            answer
            for answer in iter(lambda: served.client.post(triple(1, 1) * 60, at=9), None)
            if answer.status == 429
        )
        assert int(refused.headers["retry-after"]) >= 1


def test_more_memory_than_allowed_is_429(tmp_path: Path) -> None:
    with serving(tmp_path, limits={"memory": 1000}) as served:
        served.client.stream(retention="forever")
        statuses = [served.client.post(triple(n, n) * 50, at=n).status for n in range(5)]
        assert 429 in statuses
        assert served.client.register(ALL).status == 429


def test_health_metrics_and_the_description_are_there(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    served.client.post(triple("a", "b"), at=1)
    assert served.client("GET", "/health").json["status"] == "ok"
    lines = served.client("GET", "/metrics").data.decode().splitlines()
    assert 'thalweg_events_total{stream="http://ex/s"} 1' in lines
    assert "thalweg_queries 1" in lines
    assert all(line.startswith(("# HELP thalweg_", "# TYPE thalweg_", "thalweg_")) for line in lines)
    page = served.client("GET", "/openapi.json").json
    assert {"/streams/{name}", "/queries", "/queries/{id}/lease", "/sparql", "/graphs"} <= set(page["paths"])
    assert id
