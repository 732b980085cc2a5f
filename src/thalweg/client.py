"""A client of the service, with the shape of a session: register, push, poll, iterate."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import ssl
import threading
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from thalweg.arguments import stream_of, time_of
from thalweg.errors import QueryError, ThalwegError, UsageError
from thalweg.instants import Instant, Time, as_instant, show_instant
from thalweg.rdf.formats import format_named
from thalweg.rows import Row
from thalweg.statements import lines_of
from thalweg.tables import Rows

_WAIT = "25s"
_TIMEOUT = 60.0
_ATTEMPTS = 3


class ServiceError(ThalwegError):
    """What a server refused; `status` is that of HTTP."""

    def __init__(
        self, reason: str, status: int, *, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(reason, line=line, column=column)
        self.status = status


def connect(url: str, token: str | None = None) -> Remote:
    """The session of a server. The token is that of `THALWEG_TOKEN` unless one is given."""
    return Remote(url, token or os.environ.get("THALWEG_TOKEN"))


class Remote:
    """A session on a server. It may be used by several threads, one after the other."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"the address of a server is http://HOST:PORT, not {url!r:.80}")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._parts, self._token = parts, token
        self._local = threading.local()

    def __enter__(self) -> Remote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection of this thread; queries stay registered until their leases end."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def __repr__(self) -> str:
        return f"<Remote {self.url}>"

    # Requests

    def _connected(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if found is None:
            host, port = self._parts.hostname or "", self._parts.port
            if self._parts.scheme == "https":
                context = ssl.create_default_context()
                found = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=context)
            else:
                found = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
            self._local.connection = found
        return found

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        again: bool = True,
    ) -> tuple[http.client.HTTPMessage, bytes]:
        """The headers and the body of an answer. A connection that breaks is made `again`, if that does no harm."""
        sent = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        for attempt in range(_ATTEMPTS):
            connection = self._connected()
            try:
                connection.request(method, path, body, sent | (headers or {}))
                found = connection.getresponse()
                data = found.read()
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not again or attempt == _ATTEMPTS - 1:
                    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                    raise ThalwegError(f"no answer: {reason}", source=self.url) from None
                continue
            if found.status >= 400:
                raise _error(found.status, data)
            return found.headers, data
        raise AssertionError("unreachable")

    def _json(self, method: str, path: str, value: object = None, *, again: bool = True) -> Any:
        body = None if value is None else json.dumps(value).encode()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        _, data = self.request(method, path, body, headers, again=again)
        return json.loads(data) if data else None

    # The shape of a session

    def declare(self, stream: str, **given: Any) -> dict[str, Any]:
        """Declares a stream: `retention`, `keep`, `clock`, `per_event`, `time_predicate`, `mapping`."""
        found: dict[str, Any] = self._json("PUT", _path_of(stream), given)
        return found

    def retain(self, stream: str, keep: str | None = None) -> None:
        """Keeps the events of a stream, for a duration or for ever."""
        self.declare(stream, retention=keep or "forever")

    def register(
        self,
        text: str,
        *,
        stream: str | None = None,
        start: str = "now",
        schema: str | Path | None = None,
        rules: Iterable[str] | None = None,
        lease: str | None = None,
    ) -> RemoteQuery:
        """Registers a query; `schema` is a text or a `Path`."""
        given = {
            "query": text,
            "stream": stream,
            "start": start,
            "schema": schema.read_text(encoding="utf-8") if isinstance(schema, Path) else schema,
            "rules": None if rules is None else list(rules),
            "lease": lease,
        }
        page = self._json("POST", "/queries", given, again=False)
        return RemoteQuery(self, page)

    def query(self, id: str) -> RemoteQuery:
        """A query that is registered; its rows come from the oldest that the server has."""
        return RemoteQuery(self, self._json("GET", f"/queries/{quote(id, safe='')}"))

    def unregister(self, query: RemoteQuery) -> None:
        """Drops a query."""
        self._json("DELETE", f"/queries/{query.id}")

    def push(
        self,
        stream: str,
        *,
        graph: Any,
        at: Time | None = None,
        op: str = "insert",
        format: str | None = None,
    ) -> dict[str, Any]:
        """Sends one event, as `Session.push` takes it; without `at` it has the time of its arrival."""
        if op not in ("insert", "delete"):
            raise UsageError(f'op is "insert" or "delete", not {op!r:.60}')
        if not isinstance(graph, str | bytes):
            data, format = lines_of(graph)
            graph = data.decode()
        event: dict[str, Any] = {"graph": graph if isinstance(graph, str) else graph.decode(), "op": op}
        if at is not None:
            event["at"] = show_instant(time_of(at))
        if format is not None:
            event["format"] = format
        return self.send(stream, json.dumps(event).encode(), "jsonl")

    def send(
        self, stream: str, data: bytes, format: str, *, at: Time | None = None, strict: bool = False
    ) -> dict[str, Any]:
        """Sends a document of events; the counts of what was taken. A body that is sent again counts once."""
        given = {"strict": "true"} if strict else {}
        if at is not None:
            given["at"] = show_instant(time_of(at))
        kinds = format_named(format).media_types or ("application/json",)
        headers = {"Content-Type": kinds[0], "Idempotency-Key": uuid.uuid4().hex}
        _, answer = self.request("POST", f"{_path_of(stream)}?{urlencode(given)}", data, headers)
        found: dict[str, Any] = json.loads(answer)
        return found

    def advance(self, at: Time, stream: str) -> None:
        """Sets the watermark of a stream."""
        self.request("POST", f"{_path_of(stream)}?{urlencode({'advance': show_instant(time_of(at))})}")

    def load(
        self, data: str | bytes, graph: str | None = None, format: str = "turtle", replace: bool = False
    ) -> int:
        """Loads static data into the server; the number of triples."""
        given = {} if graph is None else {"graph": graph}
        body = data.encode() if isinstance(data, str) else data
        headers = {"Content-Type": format_named(format).media_types[0]}
        method = "PUT" if replace else "POST"
        _, answer = self.request(method, f"/static?{urlencode(given)}", body, headers, again=replace)
        return int(json.loads(answer)["triples"])

    def ask(self, text: str, *, store: bool = False, as_of: Time | tuple[Time, Time] | None = None) -> Any:
        """The answer of a SPARQL query: SPARQL JSON as Python values, or N-Triples.

        It is over the present content; with `store` or `as_of`, over the events of kept streams, at an instant or of
        a window.
        """
        headers = {
            "Content-Type": "application/sparql-query",
            "Accept": "application/sparql-results+json, application/n-triples",
        }
        path = "/store/sparql" if store or as_of is not None else "/sparql"
        if as_of is not None:
            times = as_of if isinstance(as_of, tuple) else (as_of,)
            path += "?" + urlencode({"as-of": "/".join(show_instant(time_of(time)) for time in times)})
        found, data = self.request("POST", path, text.encode(), headers)
        return json.loads(data) if "json" in found.get("Content-Type", "") else data.decode()

    @property
    def queries(self) -> list[RemoteQuery]:
        """The registered queries."""
        return [RemoteQuery(self, page) for page in self._json("GET", "/queries")["items"]]

    @property
    def streams(self) -> list[str]:
        """The names of the streams."""
        return [page["name"] for page in self._json("GET", "/streams")["items"]]


class RemoteQuery:
    """A query on a server: poll it, or iterate over it, for what its answer has gained and lost."""

    def __init__(self, remote: Remote, page: dict[str, Any]) -> None:
        self.id: str = page["id"]
        self.page = page
        self.last = 0
        """The number of the last row that was polled; to begin elsewhere, set it."""
        self.ended: str | None = None
        """Why no more rows come, if so."""
        self._remote = remote

    def __repr__(self) -> str:
        return f"<RemoteQuery {self.id} at {self._remote.url}>"

    def poll(self, wait: str = "0") -> Rows:
        """The rows since the last poll; waits so long for the first one. A row `gap` stands for missed rows."""
        given = urlencode({"after": self.last, "wait": wait, "limit": 10_000})
        headers, data = self._remote.request("GET", f"/queries/{self.id}/results?{given}")
        self.last = int(headers["Thalweg-Last"])
        self.ended = headers.get("Thalweg-Ended")
        found = []
        for line in data.splitlines():
            value = json.loads(line)
            if value["op"] == "gap":
                found.append(Row(as_instant(0), "gap", {}))
            else:
                found.append(Row(Instant(value["at"]), value["op"], value["bindings"], value.get("graph")))
        return Rows.of(found, tuple(self.page["columns"]), of_answer=False)

    def __iter__(self) -> Iterator[Row]:
        """Polls until no row is left."""
        while rows := self.poll():
            yield from rows

    async def __aiter__(self) -> AsyncIterator[Row]:
        """The rows as they come, until the query ends."""
        while True:
            try:
                rows = await asyncio.to_thread(self.poll, _WAIT)
            except ServiceError as error:
                if error.status != 404:
                    raise
                self.ended = self.ended or "gone"
                return
            for row in rows:
                yield row
            if not rows and self.ended is not None:
                return

    def renew(self, lease: str | None = None) -> None:
        """Begins the lease anew."""
        self._remote._json("PUT", f"/queries/{self.id}/lease", {"lease": lease})

    def inspect(self) -> dict[str, Any]:
        """The plan, the state, the rates and the watermarks of the query."""
        found: dict[str, Any] = self._remote._json("GET", f"/queries/{self.id}")
        return found


def _path_of(stream: str) -> str:
    return f"/streams/{quote(stream_of(stream), safe='')}"


def _error(status: int, data: bytes) -> ThalwegError:
    try:
        value = json.loads(data)
        reason = value["error"]
    except (ValueError, KeyError, TypeError):
        value, reason = {}, data[:200].decode("utf-8", "replace") or f"status {status}"
    if status == 400 and "line" in value:
        return QueryError(reason, source="query", line=value["line"], column=value.get("column"))
    return ServiceError(reason, status, line=value.get("line"), column=value.get("column"))
