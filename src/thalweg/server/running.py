"""Running the service: sockets, signals, logs."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from thalweg.errors import UsageError
from thalweg.server.app import application
from thalweg.server.auth import Tokens, is_loopback
from thalweg.server.registry import Plan
from thalweg.server.service import Limits, Service
from thalweg.server.sockets import EventsProtocol
from thalweg.server.state import Settings

_HEADER_SECONDS = 10.0
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


@dataclass(frozen=True)
class Serving:
    """Where and how a service is run."""

    data: Path
    host: str = "127.0.0.1"
    port: int = 7411
    tokens: Path | None = None
    settings: Settings = field(default_factory=Settings)
    limits: Limits = field(default_factory=Limits)
    snapshot_bytes: int = 64 << 20
    connections: int = 1000
    static: tuple[tuple[str | None, Path], ...] = ()


class JsonLogs(logging.Formatter):
    """A log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        value: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        value |= {name: found for name, found in vars(record).items() if name not in _PLAIN}
        if record.exc_info:
            value["trace"] = self.formatException(record.exc_info)
        return json.dumps(value, ensure_ascii=False, default=str)


class _Protocol(HttpToolsProtocol):
    """HTTP that closes a connection on which the head of a request takes longer than some seconds."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Takes a connection."""
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        """Takes the beginning of a head."""
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Takes the end of a head."""
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Lets go of a connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Server(uvicorn.Server):
    """Uvicorn's server: at a signal, subscribers get to know, so that their connections end."""

    def __init__(self, config: uvicorn.Config, on_exit: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_exit = on_exit

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends at a signal, and in order: uvicorn would raise the signal again before the log is closed."""
        self._on_exit()
        self.force_exit = self.should_exit
        self.should_exit = True


class Running:
    """A service with its application, its socket and its loop."""

    def __init__(self, serving: Serving, service: Service | None = None) -> None:
        loopback = is_loopback(serving.host)
        self.service = service or Service(
            serving.data,
            settings=serving.settings,
            limits=serving.limits,
            snapshot_bytes=serving.snapshot_bytes,
        )
        try:
            if serving.tokens is None:
                tokens = Tokens.generated(serving.data, loopback=loopback)
            else:
                tokens = Tokens.read(serving.tokens, loopback=loopback)
            self.socket = _bound(serving.host, serving.port)
        except BaseException:
            self.service.close()
            raise
        self.port: int = self.socket.getsockname()[1]
        shown = f"[{serving.host}]" if ":" in serving.host else serving.host
        self.url = f"http://{shown}:{self.port}"
        self.app = application(self.service, tokens)
        config = uvicorn.Config(
            self.app,
            http=_Protocol,
            ws=EventsProtocol,
            ws_max_size=serving.limits.body,
            ws_per_message_deflate=False,  # it costs more than to read the event
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=serving.connections,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=10,
            h11_max_incomplete_event_size=64 << 10,
        )
        self.server = Server(config, self._close_subscriptions)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self) -> None:
        """Serves until a signal comes, then carries out what waits."""
        self._loop = asyncio.get_running_loop()
        self.app.state.connect()
        try:
            await self.server.serve(sockets=[self.socket])
        finally:
            await asyncio.to_thread(self.app.state.content.close)
            await asyncio.to_thread(self.service.close)

    def stop(self) -> None:
        """Ends from another thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self._close_subscriptions()
        self.server.should_exit = True

    def _close_subscriptions(self) -> None:
        self.app.state.closing.set()
        plans: list[Plan] = list(self.service.state.plans.values())
        for plan in plans:
            for waiter in plan.waiters:
                waiter.set()


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends small answers at once; else each waits 40 ms for an acknowledgement.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(1024)  # who connects before the loop runs, waits
    except OSError as error:
        found.close()
        raise UsageError(f"{host}:{port} cannot be used: {error.strerror or error}") from None
    return found


def set_up_logs(*, as_json: bool, requests: bool) -> None:
    """Logs of the service to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonLogs() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    for name in ("thalweg.server", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
    logging.getLogger("thalweg.server.requests").setLevel(logging.INFO if requests else logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
