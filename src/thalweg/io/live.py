"""Live sources: bytes that arrive while a run goes on, from the standard input, a TCP connection or an MQTT broker.

A thread reads the source. The run takes what has arrived, as whole lines or whole messages, and waits for more.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from thalweg.errors import DataError, UsageError
from thalweg.lines import last_end
from thalweg.rdf.chunk import Reject

STDIN = "-"
_SCHEMES = "tcp", "mqtt", "mqtts"
_READ = 1 << 16
_AHEAD = 64 << 20
"""Bytes that wait for the run at most; the source waits then."""
_LONGEST = 256 << 20
"""Bytes of the longest line."""
_CONNECT_SECONDS = 10.0


class LiveSource(Protocol):
    """A source that a thread reads until it ends or is closed."""

    name: str
    """What messages call it."""
    endless: bool
    """Whether it goes on until the run is stopped."""
    messages: bool
    """Whether what is read is a whole message; else lines may be cut anywhere."""

    def open(self) -> None:
        """Connect; what fails is one sentence."""

    def read(self) -> bytes:
        """The next bytes, or none at the end; waits for them."""

    def close(self) -> None:
        """End a `read` that waits, and let go of the connection."""


def is_live(path: str) -> bool:
    """Whether an input is no file.

    >>> is_live("-"), is_live("tcp://localhost:9000"), is_live("a/b.nt")
    (True, True, False)
    """
    return path == STDIN or urlsplit(path).scheme in _SCHEMES if "://" in path else path == STDIN


def open_live(path: str) -> LiveSource:
    """The source of an address: `-`, `tcp://HOST:PORT` or `mqtt://[USER:PASSWORD@]HOST[:PORT]/TOPIC[?qos=1&client=ID]`."""
    if path == STDIN:
        return StdinSource()
    scheme, _, rest = path.partition("://")
    if scheme == "tcp":
        host, port = _host_of(path, None)
        return TcpSource(path, host, port)
    from thalweg.io.mqtt import MqttSource, Subscription

    address, _, options = rest.partition("?")
    server, _, topic = address.partition("/")
    host, port = _host_of(f"{scheme}://{server}", 8883 if scheme == "mqtts" else 1883)
    if not topic:
        raise UsageError(f"an MQTT source names a topic: {scheme}://{server}/TOPIC", source=path)
    given = dict(parse_qsl(options))
    if unknown := given.keys() - {"qos", "client"}:
        raise UsageError(f"an MQTT source has the options qos and client, not {min(unknown)}", source=path)
    if given.get("qos", "1") not in ("0", "1", "2"):
        raise UsageError(f"qos is 0, 1 or 2, not {given['qos']!r}", source=path)
    parts = urlsplit(f"mqtt://{server}")
    return MqttSource(
        Subscription(
            host,
            port,
            unquote(topic),
            qos=int(given.get("qos", "1")),
            client=given.get("client"),
            user=unquote(parts.username) if parts.username else None,
            password=unquote(parts.password) if parts.password else None,
            tls=scheme == "mqtts",
        )
    )


def _host_of(address: str, port: int | None) -> tuple[str, int]:
    try:
        parts = urlsplit(address)
        host, given = parts.hostname, parts.port
    except ValueError as wrong:
        raise UsageError(f"not an address: {wrong}", source=address) from None
    found = given or port
    if not host or found is None:
        raise UsageError("an address is HOST:PORT", source=address)
    return host, found


class StdinSource:
    """The standard input."""

    name = "the standard input"
    endless = False
    messages = False

    def open(self) -> None:
        """A terminal is read like anything else, with a word of how to end it."""
        if sys.stdin is None:
            raise UsageError("there is no standard input")
        if sys.stdin.isatty():
            print("thalweg: reading from the terminal; end with Ctrl-D", file=sys.stderr)

    def read(self) -> bytes:
        """The next bytes."""
        return os.read(0, _READ)

    def close(self) -> None:
        """The standard input belongs to the process."""


@dataclass
class TcpSource:
    """A connection to a server that sends lines, until it closes the connection."""

    name: str
    host: str
    port: int
    endless: bool = False
    messages: bool = False
    _socket: socket.socket | None = None

    def open(self) -> None:
        """Connect to the server."""
        try:
            self._socket = socket.create_connection((self.host, self.port), _CONNECT_SECONDS)
        except OSError as error:
            reason = error.strerror or str(error)
            raise DataError(
                f"cannot connect: {reason}; check that the server runs", source=self.name
            ) from None
        self._socket.settimeout(None)

    def read(self) -> bytes:
        """The next bytes."""
        assert self._socket is not None
        return self._socket.recv(_READ)

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            with suppress(OSError):  # the other side may have been first
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()


class LivePieces:
    """What has arrived of a live source, as pairs (offset, bytes): whole lines, or whole messages.

    Without `lines`, each message is a piece, as documents are. After the end, `rejects` has what broke off.
    """

    def __init__(self, source: LiveSource, *, lines: bool = True) -> None:
        self.source = source
        self.rejects: list[Reject] = []
        self._whole = source.messages and not lines
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._has_line = False
        self._ended = False
        self._failure: str | None = None
        self._changed = threading.Condition()
        self._wake: Callable[[], None] = lambda: None

    def start(self, wake: Callable[[], None]) -> None:
        """Connect, and read from now on; `wake` is called when something can be taken."""
        self.source.open()
        self._wake = wake
        name = f"thalweg-{self.source.name}"
        threading.Thread(target=self._read, name=name, daemon=True).start()

    def stop(self) -> None:
        """Read no more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self.source.close()

    @property
    def messages(self) -> bool:
        """Whether each piece is a whole message."""
        return self._whole

    @property
    def ready(self) -> bool:
        """Whether a piece can be taken, or the end has come."""
        with self._changed:
            return self._is_ready

    @property
    def _is_ready(self) -> bool:
        return self._ended or self._has_line

    def _read(self) -> None:
        while not self._ended:
            try:
                data = self.source.read()
            except OSError as error:
                data, self._failure = b"", error.strerror or str(error)
            if data and self.source.messages and not self._whole and not data.endswith((b"\n", b"\r")):
                data += b"\n"  # a message ends its last line
            with self._changed:
                if not data:
                    self._ended = True
                else:
                    self._take(data)
                    full = self._size >= _AHEAD and self._has_line
                    while full and not self._ended and self._size >= _AHEAD:
                        self._wake()
                        self._changed.wait()
                self._changed.notify_all()
            self._wake()

    def _take(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)
        self._has_line = self._has_line or self._whole or last_end(data, 0, len(data)) > 0
        if not self._has_line and self._size > _LONGEST:
            self._failure = f"a line is longer than {_LONGEST >> 20} MiB"
            self._ended = True

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        offset = 0
        while True:
            with self._changed:
                while not self._is_ready:
                    self._changed.wait()
                data = self._cut()
                self._changed.notify_all()
                ended = self._ended and not self._waiting
            if data:
                yield offset, memoryview(data)
                offset += len(data)
            if ended:
                break
        if self._failure is not None:
            reason = f"the connection breaks off: {self._failure}"
            self.rejects.append(Reject(self.source.name, 0, 0, reason, "", "truncated"))

    def _cut(self) -> bytes:
        """What can be taken now; the rest waits."""
        if self._whole:
            data = self._waiting.popleft() if self._waiting else b""
            self._has_line = bool(self._waiting)
        else:
            data = b"".join(self._waiting)
            self._waiting.clear()
            if not self._ended:
                cut = last_end(data, 0, len(data))
                if cut < len(data):
                    self._waiting.append(data[cut:])
                data = data[:cut]
            self._has_line = False
        self._size -= len(data)
        return data
