"""Routes of operations: health and metrics."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse

from thalweg.server.access import Reading, TheService, done
from thalweg.server.state import State

router = APIRouter(tags=["operations"])
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/health")
async def health(service: TheService) -> JSONResponse:
    """Whether the server takes writes: 200, or 503 with the reason. It needs no token and says nothing else."""
    wrong = service.healthy
    if wrong is not None:
        return JSONResponse({"status": "failing", "reason": wrong}, 503)
    return JSONResponse({"status": "ok", "version": version("thalweg")})


@router.get("/metrics", dependencies=Reading)
async def metrics(service: TheService) -> Response:
    """Counts and sizes in the text format of Prometheus."""

    def look(state: State) -> list[tuple[str, str, str, list[tuple[str, float]]]]:
        stats, memory = state.session.stats, state.session.memory()
        sizes = [
            (f'{{kind="{kind}"}}', float(memory[kind])) for kind in ("windows", "answers", "output", "terms")
        ]  # type: ignore[literal-required]
        streams = [(f'{{stream="{_escaped(one.name)}"}}', one) for one in state.streams.values()]
        keeping = service.keeping
        counts: dict[str, Any] = {**state.counters, **service.counters}
        return [
            ("events_total", "counter", "Events taken", [(label, one.events) for label, one in streams]),
            ("triples_total", "counter", "Statements read", [(label, one.triples) for label, one in streams]),
            ("late_total", "counter", "Late events", [(label, one.late) for label, one in streams]),
            (
                "quarantined_total",
                "counter",
                "Pieces of input that were refused",
                [(label, one.quarantined) for label, one in streams],
            ),
            (
                "kept_events_total",
                "counter",
                "Events in the store",
                [(f'{{stream="{_escaped(name)}"}}', count) for name, count in keeping.kept.items()],
            ),
            (
                "store_waiting_bytes",
                "gauge",
                "Bytes that wait for the store",
                [("", keeping.waiting_bytes)],
            ),
            (
                "store_failing",
                "gauge",
                "Whether the store takes nothing",
                [("", keeping.failure is not None)],
            ),
            ("store_unread_total", "counter", "Bodies that the store could not read", [("", keeping.unread)]),
            ("unread_total", "counter", "Events that no query read", [("", stats.unread)]),
            ("rows_total", "counter", "Rows of results", [("", counts["rows"])]),
            ("queries", "gauge", "Registered queries", [("", len(state.queries))]),
            ("plans", "gauge", "Plans that they share", [("", len(state.plans))]),
            ("leases_expired_total", "counter", "Leases that ended", [("", counts["expired"])]),
            (
                "subscribers",
                "gauge",
                "Readers that follow results",
                [("", sum(len(plan.waiters) for plan in state.plans.values()))],
            ),
            ("memory_bytes", "gauge", "Memory of the session", sizes),
            ("waiting_bytes", "gauge", "Bytes that wait for the engine", [("", service.waiting_bytes)]),
            ("commits_total", "counter", "Groups that were synchronised", [("", counts["groups"])]),
            ("commit_seconds_total", "counter", "Time of these", [("", service.commit_seconds)]),
            ("requests_total", "counter", "Operations that were logged", [("", counts["requests"])]),
            ("refused_total", "counter", "Operations that were refused", [("", counts["refused"])]),
            ("snapshots_total", "counter", "Snapshots", [("", counts["snapshots"])]),
            ("log_bytes", "gauge", "Size of the log", [("", service.folder.log.size)]),
            *((name, kind, help, [("", value)]) for name, kind, help, value in service.metrics()),
        ]

    lines = []
    for name, kind, help, values in await done(service.look(look)):
        lines += [f"# HELP thalweg_{name} {help}.", f"# TYPE thalweg_{name} {kind}"]
        lines += [f"thalweg_{name}{label} {+value}" for label, value in values]
    return Response("\n".join(lines) + "\n", media_type=_TYPE)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
