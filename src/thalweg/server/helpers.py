"""Helper processes of the server: one answers SPARQL over the content, one keeps events in a store."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from thalweg.errors import UsageError
from thalweg.server import frames
from thalweg.server.errors import OverloadedError

_GRACE = 5.0
"""Seconds after which an answer is given up whose process should have ended itself."""


@dataclass(frozen=True)
class Bounds:
    """What a question may take; more is 503, or 400 for an answer that is too large."""

    seconds: float
    memory: int
    """Bytes."""
    answer: int
    """Bytes of the answer."""


class Helper:
    """A process that runs a module of the package, and a socket to it. It ends when the socket is closed."""

    def __init__(self, module: str, *arguments: str) -> None:
        own, other = socket.socketpair()
        with other:
            command = [sys.executable, "-P", "-m", module, str(other.fileno()), *arguments]
            self._process = subprocess.Popen(command, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL)
        self.socket = own
        self._sending = threading.Lock()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def send(self, head: dict[str, Any], parts: Sequence[bytes] = (), files: Sequence[int] = ()) -> None:
        """Sends a frame; OSError where the process has gone."""
        with self._sending:
            frames.send(self.socket, head, parts, files)

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def close(self, *, seconds: float = 10.0) -> None:
        """Ends the process: it may finish what it has begun."""
        with suppress(OSError):  # a thread may wait for frames: to close the socket alone would not end it
            self.socket.shutdown(socket.SHUT_WR)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RD)
        self.socket.close()

    def question(self, head: dict[str, Any], bounds: Bounds) -> Question:
        """Asks a question, after what was sent before; OSError where the process has gone."""
        read, write = os.pipe()
        try:
            self.send({**head, "seconds": bounds.seconds, "memory": bounds.memory}, files=[write])
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        return Question(self, read, bounds, time.monotonic())


@dataclass(frozen=True)
class Question:
    """A question that was asked."""

    helper: Helper
    file: int
    bounds: Bounds
    began: float

    def answer(self) -> tuple[dict[str, Any], bytes]:
        """What is said of the answer, and its bytes; OSError where the process has gone."""
        try:
            return self._answer()
        finally:
            os.close(self.file)

    def _answer(self) -> tuple[dict[str, Any], bytes]:
        """What comes through the pipe until it is closed."""
        file, bounds, began = self.file, self.bounds, self.began
        slow = OverloadedError(
            f"the query took longer than {bounds.seconds:g} s: ask for less (--ask-seconds is the limit)"
        )
        parts: list[bytes] = []
        size = 0
        while True:
            left = began + bounds.seconds + _GRACE - time.monotonic()
            if left <= 0 or not select.select([file], [], [], left)[0]:
                raise slow
            part = os.read(file, 1 << 20)
            if not part:
                break
            parts.append(part)
            size += len(part)
            if size > bounds.answer:
                raise UsageError(f"the answer has more than {bounds.answer:,} bytes: use LIMIT and OFFSET")
        front, _, data = b"".join(parts).partition(b"\n")
        about: dict[str, Any] = json.loads(front) if front and (data or b"}" in front) else {}
        if about.get("bytes") == len(data) and about["status"] != "memory":
            return about, data
        if time.monotonic() - began >= bounds.seconds:
            raise slow
        if not self.helper.alive():
            raise ConnectionError("the helper process has ended")
        raise OverloadedError(f"the query took more than {bounds.memory:,} bytes of memory: ask for less")
