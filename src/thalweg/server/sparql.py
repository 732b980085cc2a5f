"""Routes of asking: the SPARQL 1.1 Protocol and the reads of the Graph Store Protocol over the current content.

The content is a dataset: each retained stream and each window of a query is a named graph, static graphs have their
names, and the default graph is what is retained of all streams, with the static default graph.
"""

from __future__ import annotations

import asyncio
import re
import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pyoxigraph as ox
from fastapi import APIRouter, Request, Response

from thalweg.arguments import time_of
from thalweg.errors import QueryError, UsageError
from thalweg.operators.sequences import SequenceSet
from thalweg.server.access import Reading, TheService, body_of, done, may_write
from thalweg.server.errors import MediaTypeError, NotAcceptableError, TooMuchError, UnknownError
from thalweg.server.service import Service
from thalweg.server.state import State
from thalweg.store.asking import as_query_error

router = APIRouter(tags=["asking"])
_SOLUTIONS = {
    "application/sparql-results+json": ox.QueryResultsFormat.JSON,
    "application/json": ox.QueryResultsFormat.JSON,
    "application/sparql-results+xml": ox.QueryResultsFormat.XML,
    "text/csv": ox.QueryResultsFormat.CSV,
    "text/tab-separated-values": ox.QueryResultsFormat.TSV,
}
_GRAPHS = {
    "application/n-triples": ox.RdfFormat.N_TRIPLES,
    "text/turtle": ox.RdfFormat.TURTLE,
    "application/rdf+xml": ox.RdfFormat.RDF_XML,
}
# What may hide a word: strings, IRIs, comments; names with a prefix are no words.
_HIDDEN = re.compile(
    r'"""(?:"{0,2}(?:[^"\\]|\\.))*"""|\'\'\'(?:\'{0,2}(?:[^\'\\]|\\.))*\'\'\'|"(?:[^"\\\r\n]|\\.)*"'
    r"|'(?:[^'\\\r\n]|\\.)*'|<[^<>\"{}|^`\\\x00-\x20]*>|\#[^\r\n]*|[?$]\w+|[\w.-]*:[\w.:%-]*",
    re.DOTALL,
)
_SERVICE = re.compile(r"\bservice\b", re.IGNORECASE)
_AT_ONCE = 4


class Content:
    """The content of a service as a store, made anew when it is asked after a change."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._version: object = None
        self._store = ox.Store()
        self.running = 0

    def store(self) -> ox.Store:
        """The store of the present content; called by threads that may wait."""
        with self._lock:
            known = self._version
            version, graphs = self._service.look(lambda state: _export(state, known)).result()
            if graphs is not None:
                store = ox.Store()
                for name, lines in graphs:
                    graph = None if name is None else ox.NamedNode(name)
                    store.bulk_load(lines, ox.RdfFormat.N_TRIPLES, to_graph=graph)
                self._store, self._version = store, version
            return self._store


def _export(state: State, known: object) -> tuple[object, list[tuple[str | None, bytes]] | None]:
    """The graphs of the content as N-Triples, and their version; None where it is the known one."""
    counters = state.counters
    version = (
        counters["steps"],
        counters["loads"],
        tuple(state.plans),
        tuple(state.session.retained_streams),
    )
    if version == known:
        return version, None
    session = state.session
    graphs: list[tuple[str | None, bytes]] = []
    for stream in session.retained_streams:
        lines = _lines(session.arena, session.retained_content(stream))
        graphs += [(stream, lines), (None, lines)]
    for name, rows in session.static_content():
        graphs.append((name or None, _lines(session.arena, rows)))
    for plan in state.plans.values():
        query = plan.query
        if (
            query.query.per_event
            or query.query.sequence is not None
            or isinstance(query.streamset, SequenceSet)
        ):
            continue
        query.streamset.catch_up()
        contents = query.streamset.content(query.view, session.arena.intern)
        for number, rows in enumerate(contents):
            lines = _lines(session.arena, rows)
            graphs += [(window_name(id, number), lines) for id in plan.users]
    return version, graphs


def window_name(id: str, number: int) -> str:
    """The graph of a query's window: windows are numbered from 0 in the order of the query's text."""
    return f"urn:thalweg:window:{id}:{number}"


def _lines(arena: Any, rows: np.ndarray) -> bytes:
    if not len(rows):
        return b""
    texts = arena.texts(rows.reshape(-1))
    return "".join(f"{texts[k]} {texts[k + 1]} {texts[k + 2]} .\n" for k in range(0, len(texts), 3)).encode()


@dataclass(frozen=True)
class _Asked:
    """A query of the protocol."""

    text: str
    default: tuple[str, ...]
    named: tuple[str, ...]


def content_of(request: Request) -> Content:
    """The content of a request's service."""
    if not hasattr(request.app.state, "content"):
        request.app.state.content = Content(request.app.state.service)
    found: Content = request.app.state.content
    return found


@router.get("/sparql", dependencies=Reading)
async def get_sparql(request: Request) -> Response:
    """A SPARQL query in the parameter `query` (SPARQL 1.1 Protocol)."""
    return await _ask(request, _asked(parse_qs(request.url.query, keep_blank_values=True)))


@router.post("/sparql", dependencies=Reading)
async def post_sparql(request: Request, service: TheService) -> Response:
    """A SPARQL query or update, as a form or as the body; updates need the parameter `stream` and a write token."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    given = parse_qs(request.url.query, keep_blank_values=True)
    if kind in ("application/sparql-update", "application/x-www-form-urlencoded", "application/sparql-query"):
        body = await body_of(request, service.limits)
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            raise UsageError("the body is not in UTF-8") from None
        if kind == "application/x-www-form-urlencoded":
            form = parse_qs(text, keep_blank_values=True)
            given |= form
            if "update" in form:
                return await _update(request, service, _one(form, "update"), given)
            return await _ask(request, _asked(given))
        if kind == "application/sparql-update":
            return await _update(request, service, text, given)
        return await _ask(request, _asked(given | {"query": [text]}))
    raise MediaTypeError(
        "the content type is application/sparql-query, application/sparql-update or "
        "application/x-www-form-urlencoded"
    )


def _one(given: dict[str, list[str]], name: str) -> str:
    found = given.get(name, [])
    if len(found) != 1:
        raise UsageError(f"the parameter {name} is given {'twice' if found else 'not at all'}: give it once")
    return found[0]


def _asked(given: dict[str, list[str]]) -> _Asked:
    default = tuple(given.get("default-graph-uri", ()))
    return _Asked(_one(given, "query"), default, tuple(given.get("named-graph-uri", ())))


async def _update(request: Request, service: Service, text: str, given: dict[str, list[str]]) -> Response:
    may_write(request)
    if "using-graph-uri" in given or "using-named-graph-uri" in given:
        raise UsageError("data are inserted and deleted as events: there is no dataset to use")
    operation: dict[str, Any] = {"stream": _one(given, "stream"), "format": "ru", "strict": True}
    if "at" in given:
        operation["at"] = time_of(_one(given, "at"))
    await done(service.events(operation, text.encode()))
    return Response(status_code=204)


async def _ask(request: Request, asked: _Asked) -> Response:
    if _SERVICE.search(_HIDDEN.sub(" ", asked.text)):
        raise QueryError("SERVICE is refused: this server asks no others")
    content = content_of(request)
    if content.running >= _AT_ONCE:
        raise TooMuchError(f"{_AT_ONCE} queries are being answered: ask again later")
    content.running += 1
    try:
        data, kind = await asyncio.to_thread(_answer, content, asked, request.headers.get("accept", "*/*"))
    finally:
        content.running -= 1
    return Response(data, media_type=kind)


def _answer(content: Content, asked: _Asked, accept: str) -> tuple[bytes, str]:
    given: dict[str, Any] = {}
    try:
        if asked.default:
            given["default_graph"] = [ox.NamedNode(name) for name in asked.default]
        if asked.named:
            given["named_graphs"] = [ox.NamedNode(name) for name in asked.named]
        found = content.store().query(asked.text, **given)
    except (SyntaxError, ValueError) as error:
        raise as_query_error(asked.text, str(error)) from None
    kind, format = negotiated(accept, _GRAPHS if isinstance(found, ox.QueryTriples) else _SOLUTIONS)
    if isinstance(found, ox.QueryBoolean) and kind.startswith("text/"):
        kind, format = "application/sparql-results+json", ox.QueryResultsFormat.JSON
    return found.serialize(format=format) or b"", kind  # type: ignore[arg-type]


def negotiated(accept: str, offered: dict[str, Any]) -> tuple[str, Any]:
    """The content type that a client likes best of those that are offered, and its format.

    >>> negotiated("text/csv;q=0.5, text/html", {"application/json": 1, "text/csv": 2})
    ('text/csv', 2)
    """
    wishes: list[tuple[float, str]] = []
    for part in accept.split(",") if accept.strip() else ["*/*"]:
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        quality = next((one[2:] for one in parameters if one.startswith("q=")), "1")
        try:
            wishes.append((float(quality), kind.lower()))
        except ValueError:
            continue
    best: tuple[float, int, str] | None = None
    for place, kind in enumerate(offered):
        main = kind.partition("/")[0]
        matching = [q for q, wish in wishes if wish in (kind, f"{main}/*", "*/*")]
        exact = [q for q, wish in wishes if wish == kind]
        quality_of = max(exact or matching or [0.0])
        if quality_of > 0 and (best is None or quality_of > best[0]):
            best = (quality_of, place, kind)
    if best is None:
        raise NotAcceptableError(f"there is {', '.join(offered)}, and not {accept[:80]!r}")
    return best[2], offered[best[2]]


@router.get("/graphs", dependencies=Reading)
@router.head("/graphs", dependencies=Reading, include_in_schema=False)
async def get_graph(request: Request, graph: str | None = None) -> Response:
    """A graph of the content (Graph Store Protocol): `?graph=IRI` or `?default`."""
    default = "default" in request.query_params
    if default == (graph is not None):
        raise UsageError("a graph is named by ?graph=IRI, or is ?default")
    kind, format = negotiated(request.headers.get("accept", "*/*"), _GRAPHS)
    content = content_of(request)

    def read() -> bytes:
        store = content.store()
        try:
            name = ox.DefaultGraph() if graph is None else ox.NamedNode(graph)
        except ValueError as error:
            raise UsageError(f"{graph!r:.80} is not an IRI: {error}") from None
        if graph is not None and not store.contains_named_graph(name):
            raise UnknownError(f"there is no graph <{graph}>, or it is empty")
        triples = (quad.triple for quad in store.quads_for_pattern(None, None, None, name))
        return ox.serialize(triples, format=format) or b""

    return Response(await asyncio.to_thread(read), media_type=kind)
