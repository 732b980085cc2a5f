"""The ASGI application: routes, errors as answers, limits of bodies, logs of requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thalweg.errors import ThalwegError
from thalweg.server import kept, operations, queries, results, sparql, streams
from thalweg.server.auth import Tokens
from thalweg.server.content import Content
from thalweg.server.errors import DeniedError, TooMuchError, status_of
from thalweg.server.helpers import Bounds
from thalweg.server.registry import Plan
from thalweg.server.service import Service

T = TypeVar("T")
requests = logging.getLogger("thalweg.server.requests")


def application(service: Service, tokens: Tokens) -> FastAPI:
    """The application over a service."""
    app = FastAPI(
        title="Thalweg",
        version=version("thalweg"),
        description="Continuous queries over RDF streams: push events, register queries, follow their answers.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.service, app.state.tokens = service, tokens
    app.state.closing = asyncio.Event()
    limits = service.limits
    app.state.bounds = Bounds(limits.ask_seconds, limits.ask_memory, limits.ask_bytes)
    app.state.content, app.state.questions = Content(service, app.state.bounds), 0
    for module in (streams, queries, results, sparql, kept, operations):
        app.include_router(module.router)
    app.add_exception_handler(ThalwegError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_middleware(_Logged)
    app.state.connect = lambda: _connect(app)
    return app


def _connect(app: FastAPI) -> None:
    """Wakes subscribers, in the loop that runs now, when the engine has rows for them."""
    loop = asyncio.get_running_loop()

    def wake(plans: Iterable[Plan]) -> None:
        for plan in plans:
            for waiter in plan.waiters:
                waiter.set()

    def woken(plans: Iterable[Plan]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(wake, list(plans))

    app.state.service.listen(woken)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ThalwegError)
    headers = {}
    if isinstance(error, TooMuchError):
        headers["Retry-After"] = str(max(1, round(error.seconds)))
    if isinstance(error, DeniedError) and not error.known:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(problem(error), status_of(error), headers)


def problem(error: ThalwegError) -> dict[str, Any]:
    """An error as clients see it."""
    found: dict[str, Any] = {"error": error.reason}
    if error.line is not None:
        found["line"] = error.line
    if error.column is not None:
        found["column"] = error.column
    return found


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"error": f"{place}: {first['msg']}"}, 400)


class _Logged:
    """Logs each request when it has been answered; tokens and bodies are not in it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not requests.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            extra = {
                "method": scope["method"],
                "path": scope["path"][:500],
                "status": status,
                "ms": round(1000 * (time.perf_counter() - began), 2),
                "client": (scope.get("client") or ("", 0))[0],
            }
            requests.info("request", extra=extra)
