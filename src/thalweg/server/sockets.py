"""WebSockets that events come on: messages are taken by the buffer, and answered by the group."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from starlette.websockets import WebSocket
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request as Handshake

from thalweg.errors import ThalwegError
from thalweg.kernels import websocket as kernel
from thalweg.rdf.texts import ended
from thalweg.server.errors import error_text
from thalweg.server.messages import FORMAT, RUN_BYTES
from thalweg.server.service import Service

_PATH = "/streams/"
_EXTENSION = "thalweg.events"
_MOST_MESSAGES = 1 << 13
_AHEAD_MESSAGES, _AHEAD_BYTES = 1 << 14, 4 << 20
"""Messages and bytes of a connection that wait for their answers; with more, nothing is read from it."""


class Buffers:
    """Memory for the messages of a piece of data; the thread of the loop uses it."""

    def __init__(self) -> None:
        self.texts = np.empty(RUN_BYTES + kernel.MOST + 1, np.uint8)
        self.ends = np.empty(_MOST_MESSAGES, np.int64)
        self.state = np.zeros(3, np.int64)

    def take(
        self, data: np.ndarray, pos: int, longest: int, lines: bool
    ) -> tuple[int, int, bytes, list[int]]:
        """What stands behind the whole messages from a place on, that place, and these messages with their sizes."""
        self.state[:] = pos, 0, 0
        status = kernel.take_messages(data, self.state, RUN_BYTES, longest, lines, self.texts, self.ends)
        pos, size, count = self.state.tolist()
        return status, pos, self.texts[:size].tobytes(), np.diff(self.ends[:count], prepend=0).tolist()


class EventsProtocol(WebSocketsSansIOProtocol):
    """WebSockets of which those to streams are read by a kernel, apart from frames that are rare.

    Parts of messages, control frames, long ones and malformed ones go the way of all other sockets.
    """

    _buffers: Buffers | None = None

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.sender: Sender | None = None
        """What takes the messages, from when the socket is accepted."""
        self._for_events = False
        self._left = bytearray()
        self._others = 0  # bytes that belong to a frame of the other kind
        self._writing_paused = False

    def handle_connect(self, event: Handshake) -> None:
        """Takes a handshake."""
        super().handle_connect(event)
        if event.path.startswith(_PATH) and not self.handshake_complete:
            self._for_events = True
            self.scope["extensions"][_EXTENSION] = self  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Takes bytes: those of a handshake, or frames."""
        if not self._for_events:
            super().data_received(data)
            return
        self._left += data
        if self.sender is not None:
            self.take_frames()

    def take_frames(self) -> None:
        """Takes the whole frames that have come."""
        assert self.sender is not None
        if EventsProtocol._buffers is None:
            EventsProtocol._buffers = Buffers()
        data = np.frombuffer(bytes(self._left), np.uint8)
        pos, size = 0, len(data)
        while pos < size and not self.transport.is_closing():
            if self._others:
                end = min(size, pos + self._others)
                self._others -= end - pos
                self._receive(data[pos:end].tobytes())
                pos = end
                continue
            status = kernel.OTHER
            if not self.frames:  # else a message is under way, in parts
                status, pos, text, sizes = EventsProtocol._buffers.take(
                    data, pos, self.config.ws_max_size, self.sender.lines
                )
                if sizes:
                    self.sender.send(text, sizes)
            if status == kernel.DONE:
                break
            if status == kernel.OTHER:
                length = _frame_length(data[pos : pos + 10])
                if length is None:
                    break
                self._others = length
        self._left = bytearray(data[pos:])

    def _receive(self, data: bytes) -> None:
        self.conn.receive_data(data)
        if self.conn.parser_exc is not None:
            self.handle_parser_exception()
        else:
            self.handle_events()

    def send_receive_event_to_app(self) -> None:
        """Takes a message that came in an unusual way."""
        if self.sender is None:
            super().send_receive_event_to_app()
            return
        text, self.frames = b"".join(self.frames), []
        if self.sender.lines:
            text = ended(text)
        self.sender.send(text, [len(text)])

    def pause_writing(self) -> None:
        """Reads no more while the client takes no answers."""
        super().pause_writing()
        self._writing_paused = True
        self.pace()

    def resume_writing(self) -> None:
        """Reads again."""
        super().resume_writing()
        self._writing_paused = False
        self.pace()

    def pace(self) -> None:
        """Reads, or not, by what waits."""
        if self.sender is None or self.transport.is_closing():
            return
        if self._writing_paused or self.sender.is_full:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def write(self, answers: list[bytes]) -> None:
        """Sends texts, each as a message."""
        if not self.close_sent and not self.transport.is_closing():
            self.transport.write(b"".join(map(_frame, answers)))


def _frame_length(head: np.ndarray) -> int | None:
    """How long a frame is that begins so; None where its length has not come."""
    if len(head) < 2:
        return None
    masked, length = 4 * bool(head[1] & 0x80), int(head[1]) & 0x7F
    more = {126: 2, 127: 8}.get(length, 0)
    if len(head) < 2 + more:
        return None
    if more:
        length = int.from_bytes(head[2 : 2 + more].tobytes(), "big")
    return 2 + more + masked + length


@lru_cache(1 << 12)
def _frame(text: bytes) -> bytes:
    """A text as a frame of a server."""
    size = len(text)
    if size < 126:
        return bytes((0x81, size)) + text
    if size < 1 << 16:
        return b"\x81\x7e" + size.to_bytes(2, "big") + text
    return b"\x81\x7f" + size.to_bytes(8, "big") + text


@dataclass
class _Sent:
    """Messages that wait for their answers, and where these go."""

    sender: Sender
    sizes: list[int]
    answers: list[bytes] | None = None

    def set_result(self, result: list[bytes] | dict[str, Any]) -> None:
        """Takes the answers, in the engine's thread."""
        assert isinstance(result, list)
        self._arrived(result)

    def set_exception(self, error: BaseException) -> None:
        """Takes an error for all of them."""
        assert isinstance(error, ThalwegError)
        self._arrived([error_text(error)] * len(self.sizes))

    def _arrived(self, answers: list[bytes]) -> None:
        self.answers = answers
        self.sender.wake()

    def done(self) -> bool:
        """Whether the answers have come."""
        return self.answers is not None


class Sender:
    """The messages of one connection on their way through the engine; answers go out in the order of the messages."""

    def __init__(self, service: Service, protocol: EventsProtocol, operation: dict[str, Any]) -> None:
        self._service = service
        self._protocol = protocol
        self._operation = operation
        self.lines = operation["format"] == FORMAT
        """Whether messages are read together, and therefore end with a line feed."""
        self._waiting: deque[_Sent] = deque()
        self._messages = self._bytes = 0
        self._loop = asyncio.get_running_loop()
        self._woken = False

    @property
    def is_full(self) -> bool:
        """Whether so much waits that nothing more is to be read."""
        return self._messages > _AHEAD_MESSAGES or self._bytes > _AHEAD_BYTES

    def send(self, text: bytes, sizes: list[int]) -> None:
        """Hands messages to the engine."""
        if self.lines:
            self._send(text, sizes)
        else:
            start = 0
            for size in sizes:
                self._send(text[start : start + size], [size])
                start += size
        self._protocol.pace()

    def _send(self, text: bytes, sizes: list[int]) -> None:
        sent = _Sent(self, sizes)
        self._waiting.append(sent)
        self._messages += len(sizes)
        self._bytes += len(text)
        try:
            self._service.messages(dict(self._operation), text, sizes, sent)
        except ThalwegError as error:
            sent.set_exception(error)

    def wake(self) -> None:
        """Sends answers soon; any thread may call it."""
        if not self._woken and not self._loop.is_closed():
            self._woken = True
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._woken = False
        answers: list[bytes] = []
        while self._waiting and (found := self._waiting[0].answers) is not None:
            sent = self._waiting.popleft()
            self._messages -= len(sent.sizes)
            self._bytes -= sum(sent.sizes)
            answers += found
        if answers:
            self._protocol.write(answers)
            self._protocol.pace()


async def take_events(socket: WebSocket, service: Service, operation: dict[str, Any]) -> None:
    """Accepts a socket, and takes its messages until it ends."""
    protocol: EventsProtocol = socket.scope["extensions"][_EXTENSION]
    await socket.accept()
    protocol.sender = Sender(service, protocol, operation)
    protocol.take_frames()
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
