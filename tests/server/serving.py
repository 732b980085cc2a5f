"""A server on a socket of its own, and a plain client of HTTP: nothing between them is replaced."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from thalweg.server.log import Folder
from thalweg.server.running import Running, Serving
from thalweg.server.service import Limits, Service
from thalweg.server.state import Settings

S = "http://ex/s"
NT = "application/n-triples"
PAIRS = (
    "SELECT ?a ?c FROM STREAM <http://ex/s> [RANGE 10s] WHERE { ?a <http://ex/p> ?b . ?b <http://ex/p> ?c }"
)
ALL = "SELECT ?a ?b FROM STREAM <http://ex/s> [RANGE 10s] WHERE { ?a <http://ex/p> ?b }"


def triple(s: object, o: object) -> str:
    return f"<http://ex/{s}> <http://ex/p> <http://ex/{o}> .\n"


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self, now: int = 1_000_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.data.splitlines()]


@dataclass
class Client:
    port: int
    token: str | None
    host: str = "127.0.0.1"
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        kind: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if isinstance(body, dict):
            body, kind = json.dumps(body), "application/json"
        if kind is not None:
            sent["Content-Type"] = kind
        sent |= headers or {}
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            self._connection.request(method, path, body, sent, encode_chunked=hasattr(body, "__next__"))
            found = self._connection.getresponse()
            data = found.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        if found.will_close:
            self.close()
        return Answer(found.status, {key.lower(): value for key, value in found.headers.items()}, data)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def stream(self, **given: Any) -> Answer:
        return self("PUT", f"/streams/{quote(S, safe='')}", given)

    def post(self, text: str, at: int | None = None, kind: str = NT, more: str = "") -> Answer:
        time = "" if at is None else f"&at={at}"
        return self("POST", f"/streams/{quote(S, safe='')}?{time}{more}", text, kind)

    def register(self, query: str, **given: Any) -> Answer:
        return self("POST", "/queries", {"query": query, **given})

    def results(self, id: str, after: int = 0, more: str = "") -> list[Any]:
        return self("GET", f"/queries/{id}/results?after={after}{more}").lines

    def events(self, id: str, after: int | None = None, more: str = "") -> Iterator[dict[str, str]]:
        """Server-Sent Events until the server ends them, as their fields."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {self.token}"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        connection.request("GET", f"/queries/{id}/results?{more}", headers=headers)
        found = connection.getresponse()
        assert found.status == 200, found.read()
        fields: dict[str, str] = {}
        try:
            for text in _lines(found):
                if text:
                    key, _, value = text.partition(": ")
                    fields[key] = value
                elif fields:
                    if "data" in fields:
                        yield fields
                    fields = {}
        finally:
            found.close()
            connection.close()


def _lines(found: http.client.HTTPResponse) -> Iterator[str]:
    """The lines of a response, as they come; its own `readline` reads chunks byte by byte."""
    rest = b""
    while part := found.read1(1 << 16):
        *lines, rest = (rest + part).split(b"\n")
        yield from (line.decode() for line in lines)


@dataclass
class Served:
    running: Running
    client: Client
    clock: Clock

    @property
    def service(self) -> Service:
        return self.running.service

    @property
    def state(self) -> Any:
        return self.running.service.state

    def other(self, token: str | None) -> Client:
        return Client(self.running.port, token)


@contextmanager
def serving(path: Path, **given: Any) -> Iterator[Served]:
    """A server in a thread of this process."""
    clock = given.pop("clock", None) or Clock()
    folder = given.pop("folder", Folder)
    settings = Settings(**given.pop("settings", {}))
    limits = Limits(**given.pop("limits", {}))
    snapshot_bytes = given.pop("snapshot_bytes", 64 << 20)
    service = given.pop("service", None) or Service(
        path, settings=settings, limits=limits, clock=clock, snapshot_bytes=snapshot_bytes, folder=folder
    )
    running = Running(Serving(path, port=0, limits=limits, **given), service)
    thread = threading.Thread(target=lambda: asyncio.run(running.serve()))
    thread.start()
    try:
        while not running.server.started:
            threading.Event().wait(0.005)
        tokens = path / "token"
        token = tokens.read_text().split()[1] if tokens.exists() else None
        client = Client(running.port, token)
        yield Served(running, client, clock)
        client.close()
    finally:
        running.stop()
        thread.join(30)
        assert not thread.is_alive()
