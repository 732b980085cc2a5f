"""Routes of queries: register, list, inspect, drop; and their leases."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from thalweg.server.access import Reading, TheService, Writing, done, page
from thalweg.server.service import checked_lease

router = APIRouter(tags=["queries"])
LEASE_MS = 3_600_000
"""The lease of a query that asks for none."""


class QueryBody(BaseModel):
    """A query to register."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    query: str = Field(description="The text, in SPARQL, RSP-QL, C-SPARQL or SPAseq.")
    stream: str | None = Field(None, description="The stream of a query that names none.")
    schema_: str | None = Field(None, alias="schema", description="A schema as Turtle.")
    rules: list[str] | None = Field(None, description="The rules of the schema.")
    start: Literal["now", "content"] = Field(
        "now", description="Begin with what comes, or with the answer over what the streams retain."
    )
    lease: str | None = Field(None, description="How long it lives unless it is renewed: a duration [1h].")


class LeaseBody(BaseModel):
    """A lease to begin anew."""

    model_config = ConfigDict(extra="forbid")
    lease: str | None = Field(None, description="Its duration [that of before].")


@router.post("/queries", dependencies=Writing, status_code=201)
async def register(body: QueryBody, service: TheService, response: Response) -> dict[str, Any]:
    """Registers a query. Equal queries share a plan, also when their variables have other names."""
    given = {
        "text": body.query,
        "stream": body.stream,
        "schema": body.schema_,
        "rules": body.rules,
        "start": body.start,
    }
    answer = await done(service.register(given, checked_lease(body.lease, service.limits, LEASE_MS)))
    response.headers["Location"] = f"/queries/{answer['id']}"
    return answer


@router.get("/queries", dependencies=Reading)
async def list_queries(service: TheService) -> dict[str, Any]:
    """All registered queries."""
    return page(await done(service.look(lambda s: [s.query_page(one) for one in s.queries.values()])))


@router.get("/queries/{id}", dependencies=Reading)
async def inspect(id: str, service: TheService) -> dict[str, Any]:
    """A query: its plan, its state, rates, watermarks, and what its streams have quarantined."""
    return await done(service.look(lambda state: state.query_page(state.query(id), whole=True)))


@router.get("/queries/{id}/answer", dependencies=Reading)
async def answer(id: str, service: TheService) -> dict[str, Any]:
    """The present answer of a query: its rows at the instant up to which events are complete."""

    def look(state: Any) -> dict[str, Any]:
        registered = state.query(id)
        names = {name: own for own, name in registered.columns}
        rows = [
            {names.get(name, name): term for name, term in row.bindings.items()}
            for row in registered.plan.query.answer()
        ]
        return {"columns": [own for own, _ in registered.columns], "rows": rows}

    return await done(service.look(look))


@router.delete("/queries/{id}", dependencies=Writing, status_code=204)
async def drop(id: str, service: TheService) -> Response:
    """Drops a query; its subscribers get to know."""
    await done(service.drop(id))
    return Response(status_code=204)


@router.put("/queries/{id}/lease", dependencies=Writing)
async def renew(id: str, service: TheService, body: LeaseBody | None = None) -> dict[str, Any]:
    """Begins the lease of a query anew."""
    lease = None if body is None or body.lease is None else checked_lease(body.lease, service.limits, 0)
    return await done(service.renew(id, lease))
