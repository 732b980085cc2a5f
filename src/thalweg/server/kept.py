"""Routes of the store: SPARQL over the events of kept streams, now or at an earlier instant."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from thalweg.arguments import time_of
from thalweg.errors import QueryError, UsageError
from thalweg.server.access import Reading, TheService
from thalweg.server.errors import UnknownError
from thalweg.server.log import DiskError
from thalweg.server.service import Service
from thalweg.server.sparql import Asked, Found, Given, answered, asked, described, one, parameters, posted

router = APIRouter(tags=["store"])


@router.get("/store", dependencies=Reading)
async def get_store(service: TheService) -> dict[str, Any]:
    """How many events the store has of each stream, and how many bytes wait for it."""
    keeping = _open(service).keeping
    return {
        "streams": [{"name": name, "events": count} for name, count in sorted(keeping.kept.items())],
        "events": sum(keeping.kept.values()),
        "waiting_bytes": keeping.waiting_bytes,
        "failing": keeping.failure,
    }


@router.get("/store/sparql", dependencies=Reading)
async def get_store_sparql(request: Request, service: TheService) -> Response:
    """A SPARQL query over the store in the parameter `query`; `as-of` is an instant, or a window START/END."""
    given = parameters(request.url.query)
    if "query" not in given and "update" not in given:
        names = sorted(_open(service).keeping.kept)
        return await described(request, lambda state: names, service)
    return await _answered(request, service, given)


@router.post("/store/sparql", dependencies=Reading)
async def post_store_sparql(request: Request, service: TheService) -> Response:
    """A SPARQL query over the store, as a form or as the body."""
    update, given = await posted(request, service)
    if update is not None:
        raise UsageError("the store keeps the events of streams: send updates to /sparql")
    return await _answered(request, service, given)


async def _answered(request: Request, service: Service, given: Given) -> Response:
    question = asked(request, given)
    if question.default is not None:
        raise UsageError("name the graphs of the store by FROM and FROM NAMED, in the query")
    as_of = as_of_of(given)
    _open(service)

    def ask(question: Asked) -> Found:
        about, data = service.keeping.ask({**question.head, "as_of": as_of}, request.app.state.bounds)
        if about["status"] == "wrong":
            raise QueryError(about["message"], source="query", line=about["line"], column=about["column"])
        if about["status"] == "disk":
            raise DiskError(about["message"])
        return about, data

    return await answered(request, question, ask)


def as_of_of(given: Given) -> str | list[str] | None:
    """The instant or the window of the parameter `as-of`; what is neither is refused.

    >>> as_of_of({"as-of": ["2026-01-05T17:00:00Z/2026-01-05T18:00:00Z"]})
    ['2026-01-05T17:00:00Z', '2026-01-05T18:00:00Z']
    """
    if "as-of" not in given:
        return None
    text = one(given, "as-of")
    start, slash, end = text.partition("/")
    for time in (start, end) if slash else (text,):
        time_of(time)
    return [start, end] if slash else text


def _open(service: Service) -> Service:
    if not service.keeping.is_open:
        raise UnknownError(
            'no stream is kept: declare one with {"keep": true}, or start the server with --keep'
        )
    return service
