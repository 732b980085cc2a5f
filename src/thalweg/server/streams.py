"""Routes of streams: declare them, send events, look at them; and static data."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Query, Request, Response, WebSocket
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from thalweg.arguments import span_of, stream_of, time_of
from thalweg.errors import ThalwegError, UsageError
from thalweg.rdf.formats import FORMATS
from thalweg.rdf.mapping import Mapping
from thalweg.server.access import Reading, TheService, Writing, body_of, done, may_write, page, service_of
from thalweg.server.auth import same_origin
from thalweg.server.bodies import Framing, format_of_type, media_types
from thalweg.server.errors import ConflictError, DeniedError, MediaTypeError
from thalweg.server.sockets import take_events
from thalweg.server.state import shown_reject

router = APIRouter()
_BODY = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string"}} for kind in sorted(media_types())},
    }
}


class StreamBody(BaseModel):
    """How a stream is kept and read."""

    model_config = ConfigDict(extra="forbid")
    retention: str | None = Field(None, description="How long events are kept: a duration, or `forever`.")
    keep: bool = Field(False, description="Whether all events are kept in the store, see /store/sparql.")
    clock: Literal["event", "arrival"] = Field(
        "event", description="Whose times events have; with `arrival` time goes on without events."
    )
    per_event: int | None = Field(
        None, ge=1, description="Statements of an event, in formats without events."
    )
    time_predicate: str | None = Field(None, description="The predicate that states the time of a graph.")
    mapping: str | None = Field(None, description="A YARRRML mapping, for rows.")


@router.get("/streams", dependencies=Reading, tags=["streams"])
async def list_streams(service: TheService) -> dict[str, Any]:
    """All streams that were declared or that queries read."""
    return page(await done(service.look(lambda s: [s.stream_page(one) for one in s.streams.values()])))


@router.put("/streams/{name:path}", dependencies=Writing, tags=["streams"])
async def put_stream(name: str, body: StreamBody, service: TheService) -> dict[str, Any]:
    """Declares a stream, or changes how it is kept and read."""
    stream = stream_of(name)
    retention = body.retention
    if retention is not None and retention != "forever":
        span_of(retention)
    if body.mapping is not None:
        Mapping(body.mapping)
    framing: dict[str, Any] = {
        "per_event": body.per_event,
        "time_predicate": body.time_predicate,
        "mapping": body.mapping,
        "arrival": body.clock == "arrival",
    }
    Framing(**framing).options(FORMATS["nq"])  # refuses what cannot be
    operation = {
        "kind": "stream",
        "name": stream,
        "retention": retention,
        "keep": body.keep,
        "framing": framing,
    }

    def check(state: Any) -> None:
        if body.keep and state.session.is_derived(stream):
            raise ConflictError(f"<{stream}> is derived from a registered query, and is not kept")

    return await done(service.submit(operation, check=check))


@router.get("/streams/{name:path}", dependencies=Reading, tags=["streams"])
async def get_stream(name: str, service: TheService) -> dict[str, Any]:
    """A stream: counts, watermark, and what was refused last."""

    def look(state: Any) -> dict[str, Any]:
        info = state.stream(stream_of(name))
        kept = {"kept_events": service.keeping.kept.get(info.name, 0)}
        return {**state.stream_page(info), **kept, "rejects": [shown_reject(one) for one in info.rejects]}

    return await done(service.look(look))


@router.delete("/streams/{name:path}", dependencies=Writing, tags=["streams"], status_code=204)
async def delete_stream(name: str, service: TheService) -> Response:
    """Removes a stream that no query reads, with what it keeps."""
    stream = stream_of(name)

    def check(state: Any) -> None:
        state.stream(stream)

    await done(service.submit({"kind": "remove", "name": stream}, check=check))
    return Response(status_code=204)


@router.post("/streams/{name:path}", dependencies=Writing, tags=["streams"], openapi_extra=_BODY)
async def post_events(
    name: str,
    request: Request,
    service: TheService,
    at: str | None = Query(None, description="The time of events that state none [their arrival]."),
    strict: bool = Query(False, description="Refuse the whole body if a part of it is malformed."),
    per_event: int | None = Query(None, ge=1, description="Statements of an event."),
    advance: str | None = Query(None, description="Without a body: set the watermark of the stream."),
) -> JSONResponse:
    """Takes events in any format; the answer comes when they are durable. 202: a part was quarantined."""
    stream = stream_of(name)
    if advance is not None:
        return await _advance(stream, advance, service)
    operation = _operation(stream, request.headers.get("content-type"), at, per_event)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise MediaTypeError("bodies are not compressed: leave Content-Encoding out")
    operation |= {"strict": strict, "key": request.headers.get("idempotency-key")}
    answer = await done(service.events(operation, await body_of(request, service.limits)))
    return JSONResponse(answer, 202 if answer["quarantined"] else 200)


async def _advance(stream: str, time: str, service: TheService) -> JSONResponse:
    operation = {"kind": "advance", "stream": stream, "at": time_of(time)}

    def check(state: Any) -> None:
        state.stream(stream)

    return JSONResponse(await done(service.submit(operation, check=check)))


def _operation(stream: str, kind: str | None, at: str | None, per_event: int | None) -> dict[str, Any]:
    try:
        format = format_of_type(kind)
    except UsageError as error:
        raise MediaTypeError(error.reason) from None
    operation: dict[str, Any] = {"stream": stream, "format": format.name, "per_event": per_event}
    if at is not None:
        operation["at"] = time_of(at)
    return operation


@router.websocket("/streams/{name:path}")
async def push_events(socket: WebSocket, name: str) -> None:
    """Takes a body in each message; each is answered by a JSON text with its counts, in order."""
    service = service_of(socket)
    try:
        if not same_origin(socket.headers.get("origin"), socket.headers.get("host")):
            raise DeniedError("this page is of another server", known=True)
        may_write(socket)
        given = socket.query_params
        per_event = given.get("per_event")
        operation = _operation(
            stream_of(name),
            given.get("type", "application/n-triples"),
            given.get("at"),
            None if per_event is None else int(per_event),
        )
        operation["strict"] = given.get("strict") in ("true", "1")
    except (ThalwegError, ValueError) as error:
        denied = isinstance(error, DeniedError)
        await socket.close(4403 if denied else 4400, str(error)[:120])
        return
    await take_events(socket, service, operation)


@router.put("/static", dependencies=Writing, tags=["static data"], openapi_extra=_BODY)
@router.post("/static", dependencies=Writing, tags=["static data"], openapi_extra=_BODY)
async def load_static(
    request: Request,
    service: TheService,
    graph: str | None = Query(None, description="The IRI of the graph [the default graph]."),
) -> dict[str, Any]:
    """Loads static data: POST adds them to a graph, PUT replaces it. Queries see the change at one instant."""
    try:
        format = format_of_type(request.headers.get("content-type"))
    except UsageError as error:
        raise MediaTypeError(error.reason) from None
    operation = {
        "kind": "load",
        "graph": graph,
        "format": format.name,
        "replace": request.method == "PUT",
    }
    return await done(service.submit(operation, await body_of(request, service.limits)))


@router.get("/static", dependencies=Reading, tags=["static data"])
async def list_static(service: TheService) -> dict[str, Any]:
    """The names of the static graphs; the empty one is that of the default graph."""
    return page(await done(service.look(lambda s: [{"graph": one} for one in s.session.static_graphs])))
