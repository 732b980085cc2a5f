"""Routes of asking: the SPARQL 1.1 Protocol and the reads of the Graph Store Protocol.

`/sparql` and `/graphs` are about the current content (see `thalweg.server.content`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response

from thalweg.arguments import time_of
from thalweg.errors import QueryError, UsageError
from thalweg.server.access import Reading, TheService, body_of, done, may_write
from thalweg.server.content import Content
from thalweg.server.describing import description
from thalweg.server.errors import MediaTypeError, NotAcceptableError, TooMuchError, UnknownError
from thalweg.server.negotiation import GRAPHS, SOLUTIONS, negotiated
from thalweg.server.service import Service
from thalweg.server.updates import stream_of_update
from thalweg.store.asking import as_query_error

router = APIRouter(tags=["asking"])
_FORM = "application/x-www-form-urlencoded"
_QUERY = "application/sparql-query"
_UPDATE = "application/sparql-update"
# What may hide a word: strings, IRIs, comments; names with a prefix are no words.
_HIDDEN = re.compile(
    r'"""(?:"{0,2}(?:[^"\\]|\\.))*"""|\'\'\'(?:\'{0,2}(?:[^\'\\]|\\.))*\'\'\'|"(?:[^"\\\r\n]|\\.)*"'
    r"|'(?:[^'\\\r\n]|\\.)*'|<[^<>\"{}|^`\\\x00-\x20]*>|\#[^\r\n]*|[?$]\w+|[\w.-]*:[\w.:%-]*",
    re.DOTALL,
)
_SERVICE = re.compile(r"\bservice\b", re.IGNORECASE)
_NAMED = re.compile(r"\b(graph|from)\b|\\u", re.IGNORECASE)
_AT_ONCE = 4

Given = dict[str, list[str]]
Found = tuple[dict[str, Any], bytes]


@dataclass(frozen=True)
class Asked:
    """A query of the protocol, and the media types that its answer may have."""

    text: str
    base: str
    default: tuple[str, ...] | None
    """The graphs of the request's dataset; None where the request has none."""
    named: tuple[str, ...]
    accept: str
    given: Given

    @property
    def words(self) -> str:
        """The text without what may hide a word."""
        return _HIDDEN.sub(" ", self.text)

    @property
    def head(self) -> dict[str, Any]:
        """The question for a helper process."""
        return {
            "kind": "ask",
            "text": self.text,
            "base": self.base,
            "default": self.default,
            "named": self.named,
            "solutions_type": negotiated(self.accept, SOLUTIONS),
            "graph_type": negotiated(self.accept, GRAPHS),
        }


def content_of(request: Request) -> Content:
    """The content of a request's service."""
    found: Content = request.app.state.content
    return found


@router.get("/sparql", dependencies=Reading)
async def get_sparql(request: Request, service: TheService) -> Response:
    """A SPARQL query in the parameter `query` (SPARQL 1.1 Protocol); without one, the service description."""
    given = parameters(request.url.query)
    if "query" not in given and "update" not in given:
        return await described(request, lambda state: _graph_names(state), service)
    content = content_of(request)
    return await answered(request, asked(request, given), lambda one: _about_content(content, one))


@router.post("/sparql", dependencies=Reading)
async def post_sparql(request: Request, service: TheService) -> Response:
    """A SPARQL query or update, as a form or as the body; updates need a write token."""
    text, given = await posted(request, service)
    if text is not None:
        return await _update(request, service, text, given)
    content = content_of(request)
    return await answered(request, asked(request, given), lambda one: _about_content(content, one))


def _about_content(content: Content, asked: Asked) -> Found:
    windows = asked.default is not None or bool(_NAMED.search(asked.words))
    return content.ask(asked.head, windows=windows)


# What the endpoints have in common


def parameters(text: str) -> Given:
    """The parameters of a query string or a form."""
    try:
        return parse_qs(text, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise UsageError("the parameters are not in UTF-8") from None


async def posted(request: Request, service: Service) -> tuple[str | None, Given]:
    """The update of a request's body, if it has one, and the parameters; a query is one of these."""
    kind, _, rest = request.headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if kind not in (_FORM, _QUERY, _UPDATE):
        raise MediaTypeError(f"the content type is {_QUERY}, {_UPDATE} or {_FORM}")
    charset = re.search(r'charset\s*=\s*"?([^";\s]+)', rest, re.IGNORECASE)
    if charset is not None and charset[1].lower() not in ("utf-8", "utf8", "us-ascii"):
        raise MediaTypeError(f"the body is in UTF-8, not in {charset[1][:40]}")
    given = parameters(request.url.query)
    try:
        text = (await body_of(request, service.limits)).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("the body is not in UTF-8") from None
    if kind == _UPDATE:
        return text, given
    if kind == _QUERY:
        if "query" in given:
            raise UsageError("the query is the body, and a parameter, too: give it once")
        return None, given | {"query": [text]}
    for name, values in parameters(text).items():
        given[name] = given.get(name, []) + values
    if "update" in given and "query" in given:
        raise UsageError("a request has a query or an update, not both")
    return (one(given, "update") if "update" in given else None), given


def one(given: Given, name: str) -> str:
    """The value of a parameter that is given once."""
    found = given.get(name, [])
    if len(found) != 1:
        raise UsageError(f"the parameter {name} is given {'twice' if found else 'not at all'}: give it once")
    return found[0]


def asked(request: Request, given: Given) -> Asked:
    """The query of a request."""
    if "update" in given:
        raise UsageError("an update is sent by POST")
    default, named = given.get("default-graph-uri"), given.get("named-graph-uri")
    has_dataset = default is not None or named is not None
    return Asked(
        one(given, "query"),
        base_of(request),
        tuple(default or ()) if has_dataset else None,
        tuple(named or ()),
        request.headers.get("accept", "*/*"),
        given,
    )


def base_of(request: Request) -> str:
    """The address of an endpoint: relative IRIs are relative to it."""
    return str(request.url.replace(query="", fragment=""))


async def answered(request: Request, question: Asked, ask: Callable[[Asked], Found]) -> Response:
    """The answer of a query; `ask` is called in a thread."""
    if _SERVICE.search(question.words):
        raise QueryError("SERVICE is refused: this server asks no others")
    about, data = await at_once(request, lambda: ask(question))
    if about["status"] == "refused":
        raise as_query_error(question.text, about["message"])
    if about["status"] == "unacceptable":
        raise unacceptable(question.accept, GRAPHS if about["graph"] else SOLUTIONS)
    return Response(data, media_type=about["type"])


async def at_once(request: Request, ask: Callable[[], Found]) -> Found:
    """An answer, unless too many others are being made."""
    state = request.app.state
    if state.questions >= _AT_ONCE:
        raise TooMuchError(f"{_AT_ONCE} queries are being answered: ask again later")
    state.questions += 1
    try:
        return await asyncio.to_thread(ask)
    finally:
        state.questions -= 1


def unacceptable(accept: str, offered: tuple[str, ...]) -> NotAcceptableError:
    """The error of a client that accepts nothing of what is offered."""
    return NotAcceptableError(f"there is {', '.join(offered)}, and not {accept[:80]!r}")


async def described(request: Request, names: Callable[[Any], list[str]], service: Service) -> Response:
    """The service description of an endpoint."""
    accept = request.headers.get("accept", "*/*")
    media = negotiated(accept, ("text/turtle", *GRAPHS))
    if media is None:
        raise unacceptable(accept, GRAPHS)
    graphs = await done(service.look(names))
    return Response(description(base_of(request), graphs, media), media_type=media)


def _graph_names(state: Any) -> list[str]:
    session = state.session
    return list(dict.fromkeys([*session.retained_streams, *filter(None, session.static_graphs)]))


async def _update(request: Request, service: Service, text: str, given: Given) -> Response:
    may_write(request)
    if "using-graph-uri" in given or "using-named-graph-uri" in given:
        raise UsageError("data are inserted and deleted as events: there is no dataset to use")
    stream = stream_of_update(text, one(given, "stream") if "stream" in given else None)
    operation: dict[str, Any] = {"stream": stream, "format": "ru", "strict": True}
    if "at" in given:
        operation["at"] = time_of(one(given, "at"))
    await done(service.events(operation, text.encode()))
    return Response(status_code=204)


@router.get("/graphs", dependencies=Reading)
@router.head("/graphs", dependencies=Reading, include_in_schema=False)
async def get_graph(request: Request, graph: str | None = None) -> Response:
    """A graph of the content (Graph Store Protocol): `?graph=IRI` or `?default`."""
    default = "default" in request.query_params
    if default == (graph is not None) or len(request.query_params.getlist("graph")) > 1:
        raise UsageError("a graph is named by ?graph=IRI, or is ?default")
    accept = request.headers.get("accept", "*/*")
    media = negotiated(accept, GRAPHS)
    if media is None:
        raise unacceptable(accept, GRAPHS)
    content = content_of(request)
    head = {"kind": "graph", "name": graph, "graph_type": media}
    about, data = await at_once(request, lambda: content.ask(head, windows=not default))
    if about["status"] == "refused":
        raise UsageError(f"{graph!r:.80} is not an IRI: {about['message']}")
    if about["status"] == "absent":
        raise UnknownError(f"there is no graph <{graph}>, or it is empty")
    return Response(data, media_type=about["type"])
