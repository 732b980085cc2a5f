"""Frames between the server and its helper processes: a head of JSON, bytes, and perhaps a file descriptor."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

_SIZES = struct.Struct("<IQ")
_PIECE = 1 << 20


def send(
    to: socket.socket, head: dict[str, Any], parts: Sequence[bytes] = (), files: Sequence[int] = ()
) -> None:
    """Sends a frame; whoever gets it has copies of the files."""
    front = json.dumps(head).encode()
    sizes = _SIZES.pack(len(front), sum(map(len, parts)))
    if files:
        sent = socket.send_fds(to, [sizes], list(files))
        sizes = sizes[sent:]
    to.sendall(sizes + front)
    for part in parts:
        to.sendall(part)


def receive(source: socket.socket) -> tuple[dict[str, Any], bytes, list[int]] | None:
    """The next frame; None where the other side has closed, or has broken off in a frame."""
    files: list[int] = []
    sizes = b""
    while len(sizes) < _SIZES.size:
        try:
            data, given, _, _ = socket.recv_fds(source, _SIZES.size - len(sizes), 1)
        except OSError:
            return None
        files += given
        if not data:
            return None
        sizes += data
    head, body = _SIZES.unpack(sizes)
    front = _exactly(source, head)
    data_of = _exactly(source, body)
    if front is None or data_of is None:
        for file in files:
            os.close(file)
        return None
    return json.loads(front), data_of, files


def _exactly(source: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        try:
            data = source.recv(min(size, _PIECE))
        except OSError:
            return None
        if not data:
            return None
        parts.append(data)
        size -= len(data)
    return b"".join(parts)
