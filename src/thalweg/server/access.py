"""What routes have in common: access to the service, checks of scopes, bodies within limits."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from starlette.requests import ClientDisconnect, HTTPConnection, Request

from thalweg.server.errors import TooLargeError, TooSlowError
from thalweg.server.service import Limits, Service

T = TypeVar("T")
_SLOWEST = 64 << 10
"""Bytes a second that a body has to come at, after the first seconds."""


def service_of(connection: HTTPConnection) -> Service:
    """The service of a request."""
    found: Service = connection.app.state.service
    return found


def may_read(connection: HTTPConnection) -> None:
    """Refuses those who may not read."""
    headers = connection.headers
    connection.app.state.tokens.check("read", headers.get("authorization"), headers.get("host"))


def may_write(connection: HTTPConnection) -> None:
    """Refuses those who may not write."""
    headers = connection.headers
    connection.app.state.tokens.check("write", headers.get("authorization"), headers.get("host"))


Reading = [Depends(may_read)]
Writing = [Depends(may_write)]
TheService = Annotated[Service, Depends(service_of)]


async def done(future: Future[T]) -> T:
    """The result of what the engine does, which it does also if nobody waits for it any more."""
    return await asyncio.shield(asyncio.wrap_future(future))


async def body_of(request: Request, limits: Limits) -> bytes:
    """The body of a request; one that is too large or comes too slowly is refused before it is in memory."""
    too_large = TooLargeError(f"a body has at most {limits.body:,} bytes: send several")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limits.body:
        raise too_large
    parts: list[bytes] = []
    size, began = 0, time.monotonic()
    stream = request.stream()
    while True:
        left = limits.body_seconds + size / _SLOWEST - (time.monotonic() - began)
        try:
            part = await asyncio.wait_for(anext(stream), max(left, 0.001))
        except StopAsyncIteration:
            break
        except TimeoutError:
            raise TooSlowError("the body comes too slowly") from None
        except ClientDisconnect:
            raise TooSlowError("the body breaks off") from None
        size += len(part)
        if size > limits.body:
            raise too_large
        parts.append(part)
    return b"".join(parts)


def page(items: list[dict[str, Any]]) -> dict[str, Any]:
    """A list as an object, which can gain members later."""
    return {"items": items, "count": len(items)}
