"""Routes of results: Server-Sent Events, long polling and WebSockets over the ring of a query."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

from fastapi import APIRouter, Query, Request, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import StreamingResponse

from thalweg.arguments import span_of
from thalweg.errors import ThalwegError, UsageError
from thalweg.server.access import Reading, TheService, done, may_read, service_of
from thalweg.server.auth import same_origin
from thalweg.server.errors import DeniedError
from thalweg.server.registry import Registered
from thalweg.server.ring import FORMATS, Taken, check_format

router = APIRouter(tags=["results"])
_AT_ONCE = 500
_HEARTBEAT_SECONDS = 15.0
_LONGEST_WAIT = 60.0


@dataclass
class Cursor:
    """Where a reader is in the results of a query; the reader's task alone uses it."""

    registered: Registered
    closing: asyncio.Event
    format: str
    after: int
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def __enter__(self) -> Cursor:
        self.registered.plan.waiters.add(self._woken)
        return self

    def __exit__(self, *_: object) -> None:
        self.registered.plan.waiters.discard(self._woken)

    def take(self, limit: int = _AT_ONCE) -> Taken:
        """The next rows."""
        self._woken.clear()
        taken = self.registered.after(self.after, self.format, limit)
        self.after = taken.after
        return taken

    async def wait(self, seconds: float) -> bool:
        """Waits for news; whether there are any."""
        if self.ended is not None or self._woken.is_set():
            return True
        # Not `wait_for`, which makes a task for each row.
        timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()
        return self.ended is not None or self.registered.last > self.after

    @property
    def ended(self) -> str | None:
        """Why no more rows come, if so."""
        if self.registered.ended is not None:
            return self.registered.ended
        if self.registered.plan.failed is not None:
            return f"failed: {self.registered.plan.failed}"
        return "shutdown" if self.closing.is_set() else None


async def _cursor(connection: Request | WebSocket, id: str, format: str, after: str | None) -> Cursor:
    registered = await done(service_of(connection).look(lambda state: state.query(id)))
    check_format(format, construct=registered.construct)
    last = registered.last
    if after == "last":
        place = last
    elif after is None:
        place = 0
    elif after.isascii() and after.isdigit() and int(after) <= last:
        place = int(after)
    else:
        raise UsageError(f"after is the number of a row, at most {last}, or `last`, not {after[:40]!r}")
    return Cursor(registered, connection.app.state.closing, format, place)


@router.get("/queries/{id}/results", dependencies=Reading)
async def get_results(
    id: str,
    request: Request,
    service: TheService,
    after: str | None = Query(None, description="The number of the last row that the client has, or `last`."),
    wait: str = Query("0", description="Long polling: how long to wait for the first row, a duration."),
    limit: int = Query(1000, ge=1, le=10_000),
    format: str | None = Query(None, description=f"One of {', '.join(FORMATS)} [by Accept]."),
) -> Response:
    """Results after a number. With `Accept: text/event-stream`, Server-Sent Events until the client goes."""
    accepted = request.headers.get("accept", "")
    events = "text/event-stream" in accepted
    named = format or next((name for name, kind in FORMATS.items() if kind in accepted), "jsonl")
    if events:
        given = request.headers.get("last-event-id") or after
        cursor = await _cursor(request, id, named, given)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(_events(cursor), media_type="text/event-stream", headers=headers)
    cursor = await _cursor(request, id, named, after)
    seconds = min(span_of(wait) / 1e6, _LONGEST_WAIT)
    with cursor:
        taken = cursor.take(limit)
        if not taken.rows and taken.gap is None and seconds and await cursor.wait(seconds):
            taken = cursor.take(limit)
    headers = {"Thalweg-Last": str(taken.after), "Cache-Control": "no-store"}
    if taken.gap is not None:
        headers["Thalweg-Gap"] = f"{taken.gap[0]}-{taken.gap[1]}"
    if cursor.ended is not None:
        headers["Thalweg-Ended"] = cursor.ended.replace("\n", " ").encode("ascii", "replace").decode()
    lines = [text for _, _, text in taken.rows]
    if taken.gap is not None and named != "nq":
        lines.insert(0, _gap(taken.gap))
    text = "".join(f"{line}\n" for line in lines)
    kind = "application/x-ndjson" if named == "sparql-json" else FORMATS[named]
    return Response(text, media_type=kind, headers=headers)


def _gap(gap: tuple[int, int]) -> str:
    return json.dumps({"op": "gap", "first": gap[0], "last": gap[1], "missed": gap[1] - gap[0] + 1})


async def _events(cursor: Cursor) -> AsyncIterator[str]:
    with cursor:
        yield "retry: 1000\n\n"
        while True:
            taken = cursor.take()
            if taken.gap is not None:
                yield f"event: gap\nid: {taken.gap[1]}\ndata: {_gap(taken.gap)}\n\n"
            if taken.rows:
                yield "".join(_message(number, op, text, cursor.format) for number, op, text in taken.rows)
                continue
            if cursor.ended is not None:
                yield f"event: end\ndata: {json.dumps({'reason': cursor.ended})}\n\n"
                return
            if not await cursor.wait(_HEARTBEAT_SECONDS):
                yield ": \n\n"


def _message(number: int, op: str, text: str, format: str) -> str:
    named = f"event: {op}\n" if format == "nq" else ""
    return f"{named}id: {number}\ndata: {text}\n\n"


@router.websocket("/queries/{id}/results")
async def socket_results(socket: WebSocket, id: str) -> None:
    """Results after a number: messages with one or several lines; the last one has the reason of the end."""
    given = socket.query_params
    try:
        if not same_origin(socket.headers.get("origin"), socket.headers.get("host")):
            raise DeniedError("this page is of another server", known=True)
        may_read(socket)
        cursor = await _cursor(socket, id, given.get("format", "jsonl"), given.get("after"))
    except ThalwegError as error:
        denied = isinstance(error, DeniedError)
        await socket.close(4403 if denied else 4404, error.reason[:100])
        return
    await socket.accept()
    sending = asyncio.create_task(_send(socket, cursor))
    try:
        while (await socket.receive())["type"] != "websocket.disconnect":
            if sending.done():
                break
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError, RuntimeError, WebSocketDisconnect):
            await sending


async def _send(socket: WebSocket, cursor: Cursor) -> None:
    with cursor:
        while True:
            taken = cursor.take()
            if taken.gap is not None:
                await socket.send_text(_gap(taken.gap))
            if taken.rows:
                await socket.send_text("\n".join(text for _, _, text in taken.rows))
                continue
            if cursor.ended is not None:
                await socket.send_text(json.dumps({"op": "end", "reason": cursor.ended}))
                await socket.close()
                return
            await cursor.wait(_HEARTBEAT_SECONDS)
