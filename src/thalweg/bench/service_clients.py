"""Clients of the service suite, each in a process of its own: `python -m thalweg.bench.service_clients KIND ...`.

They write frames that are made beforehand to a socket and count what comes back, so that it is the server that is
measured. Results go to stdout as JSON.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote, urlsplit

STREAM = "http://thalweg.dev/s"
_AT_ONCE = 64


def lines(first: int, count: int) -> bytes:
    """Events of one triple each as N-Triples, from a number on."""
    triple = "<http://thalweg.dev/s{0}> <http://thalweg.dev/p> <http://thalweg.dev/o> .\n"
    return "".join(triple.format(n) for n in range(first, first + count)).encode()


class Socket:
    """A WebSocket with messages of less than 64 KiB, over the sans-I/O part of `websockets`."""

    def __init__(self, url: str, path: str, token: str) -> None:
        from websockets.client import ClientProtocol
        from websockets.uri import parse_uri

        parts = urlsplit(url)
        protocol = ClientProtocol(parse_uri(f"ws://{parts.netloc}{path}"))
        request = protocol.connect()
        request.headers["Authorization"] = f"Bearer {token}"
        protocol.send_request(request)
        self.socket = socket.create_connection((parts.hostname, parts.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(b"".join(protocol.data_to_send()))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.socket.recv(1)  # byte by byte: frames may follow
        if b" 101 " not in head.splitlines()[0]:
            raise SystemExit(f"no WebSocket: {head.decode()}")

    @staticmethod
    def frame(data: bytes) -> bytes:
        """A message as a frame with a mask."""
        from websockets.frames import Frame, Opcode

        return Frame(Opcode.BINARY, data).serialize(mask=True)

    def messages(self) -> Iterator[list[bytes]]:
        """The messages of the server, as they come."""
        left = b""
        while data := self.socket.recv(1 << 18):
            left += data
            at, found = 0, []
            while len(left) >= at + 4:
                length, start = left[at + 1], at + 2
                if length == 126:
                    length, start = int.from_bytes(left[at + 2 : at + 4], "big"), at + 4
                if len(left) < start + length:
                    break
                if left[at] == 0x81:  # a text
                    found.append(left[start : start + length])
                at = start + length
            left = left[at:]
            yield found


def _events(url: str, token: str) -> Socket:
    return Socket(url, f"/streams/{quote(STREAM, safe='')}", token)


def pipelined(url: str, token: str, first: str, count: str) -> None:
    """Sends messages of one event without waiting, and takes an acknowledgement of each: messages a second."""
    events, total = _events(url, token), int(count)
    frames = [events.frame(lines(n, 1)) for n in range(int(first), int(first) + total)]
    _ready()
    began = time.perf_counter()

    def send() -> None:
        for k in range(0, total, _AT_ONCE):
            events.socket.sendall(b"".join(frames[k : k + _AT_ONCE]))

    threading.Thread(target=send, daemon=True).start()
    taken = seen = 0
    for messages in events.messages():
        seen += len(messages)
        taken += sum(message.startswith(b'{"events": 1,') for message in messages)
        if seen == total:
            break
    _print({"began": began, "ended": time.perf_counter(), "events": taken})


def paced(url: str, token: str, count: str) -> None:
    """Sends 1,000 messages of one event a second: the times at which they were sent."""
    events, total = _events(url, token), int(count)
    frames = [events.frame(lines(n, 1)) for n in range(total)]
    threading.Thread(target=lambda: [None for _ in events.messages()], daemon=True).start()
    _ready()
    began, sent = time.perf_counter(), []
    for number, frame in enumerate(frames):
        due = began + number / 1000
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        sent.append(time.perf_counter())
        events.socket.sendall(frame)
    sys.stdin.readline()  # the socket is open until the subscriber has everything
    _print(sent)


def following(url: str, token: str, id: str, count: str) -> None:
    """Subscribes to a query: the times at which the rows of events 0, 1, ... came."""
    results, total = Socket(url, f"/queries/{id}/results?after=last", token), int(count)
    received = [0.0] * total
    _ready(wait=False)
    seen = 0
    for messages in results.messages():
        now = time.perf_counter()
        for row in (json.loads(line) for message in messages for line in message.splitlines()):
            if row["op"] == "+":
                number = int(row["bindings"]["a"].rpartition("/s")[2][:-1])
                if number < total:
                    received[number] = now
                    seen += 1
        if seen == total:
            break
    _print(received)


def _ready(*, wait: bool = True) -> None:
    print("ready", flush=True)
    if wait:
        sys.stdin.readline()


def _print(value: object) -> None:
    print(json.dumps(value), flush=True)


KINDS: dict[str, Callable[..., None]] = {"pipelined": pipelined, "paced": paced, "following": following}

if __name__ == "__main__":
    KINDS[sys.argv[1]](*sys.argv[2:])
