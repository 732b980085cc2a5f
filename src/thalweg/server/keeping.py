"""Kept streams: their events go to a store in the data folder, after the log has them, by a process of its own.

The log is the truth. A body waits here until the store has it, and no snapshot replaces the log before. After a crash
the log is read again, and the store leaves out what it has.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from thalweg.errors import UsageError
from thalweg.server import frames
from thalweg.server.bodies import Framing
from thalweg.server.errors import OverloadedError, TooMuchError
from thalweg.server.helpers import Bounds, Helper, Question
from thalweg.server.log import DiskError

logger = logging.getLogger("thalweg.server")
_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a process is started again that has ended; more if it ends again."""


@dataclass
class _Ask:
    """A question in the queue: it sees all bodies that were sent before it."""

    head: dict[str, Any]
    bounds: Bounds
    begun: threading.Event = field(default_factory=threading.Event)
    question: Question | None = None


@dataclass(frozen=True)
class _Ended:
    """Stands in the queue when a process has ended."""

    helper: Helper


_Body = tuple[dict[str, Any], bytes]


class Keeping:
    """The store of a service, and what waits for it."""

    def __init__(self, path: Path, *, most: int) -> None:
        """`most` is how many bytes of bodies may wait."""
        self.path = path
        self.kept: dict[str, int] = {}
        """Events in the store, by stream."""
        self.failure: str | None = None
        """Why the store takes nothing now, if so."""
        self.unread = 0
        """Bodies that could not be read for the store."""
        self._most = most
        self._pause = _PAUSE
        self._items: queue.SimpleQueue[_Body | _Ask | _Ended | None] = queue.SimpleQueue()
        self._unkept: deque[_Body] = deque()
        self._sent: dict[str, int] = {}
        self._bytes = 0
        self._changed = threading.Condition()
        self._ready = False
        self._closing = False
        self._thread: threading.Thread | None = None

    # For the engine's thread

    def start(self) -> None:
        """Opens the store, which is made where there is none; a store that cannot be opened is refused."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, name="thalweg-keeping", daemon=True)
        self._thread.start()

    def wait_until_open(self) -> None:
        """Waits until the store is open, or raises why it cannot be opened."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self.failure is not None)
            if self.failure is not None:
                failure = self.failure
            else:
                return
        self._closing = True
        self._items.put(None)
        raise UsageError(failure)

    def check(self) -> None:
        """Refuses events of kept streams while too much waits."""
        if self._bytes <= self._most:
            return
        if self.failure is not None:
            raise DiskError(self.failure)
        raise TooMuchError("too many bytes wait for the store: send them again later")

    def keep(self, operation: dict[str, Any], body: bytes, number: int, framing: Framing) -> None:
        """Has the events of an operation kept. Numbers ascend; one that was given before is left out."""
        stream = operation["stream"]
        if number <= self._sent.get(stream, -1):
            return
        self._sent[stream] = number
        given = asdict(framing)
        if operation.get("per_event") is not None:
            given["per_event"] = operation["per_event"]
        names = ("stream", "format", "at", "sizes")
        head = {
            "kind": "keep",
            "number": number,
            "framing": given,
            **{name: operation.get(name) for name in names},
        }
        with self._changed:
            self._unkept.append((head, body))
            self._bytes += len(body)
            self._items.put((head, body))
        self.start()

    def settled(self, *, wait: bool) -> bool:
        """Whether the store has everything; with `wait`, after it has, or has failed to take it."""
        with self._changed:
            if wait:
                self._changed.wait_for(lambda: not self._unkept or self.failure is not None)
            return not self._unkept

    @property
    def waiting_bytes(self) -> int:
        """Bytes of bodies that wait for the store."""
        return self._bytes

    @property
    def is_open(self) -> bool:
        """Whether there is a store."""
        return self._thread is not None

    # For threads that ask

    def ask(self, head: dict[str, Any], bounds: Bounds) -> tuple[dict[str, Any], bytes]:
        """The answer of a question."""
        for attempt in range(2):
            item = _Ask(head, bounds)
            self._items.put(item)
            if not item.begun.wait(bounds.seconds):
                raise OverloadedError(
                    "the store has not taken what came before this question: ask again later"
                )
            try:
                if item.question is None:
                    raise ConnectionError
                return item.question.answer()
            except OSError:
                if attempt:
                    raise OverloadedError(
                        self.failure or "the process of the store has ended: ask again"
                    ) from None
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Closes the store; what it has not taken is in the log."""
        self._closing = True
        if self._thread is not None:
            self._items.put(None)
            self._thread.join()

    # The thread that sends, and the one that receives

    def _run(self) -> None:
        helper: Helper | None = self._started()
        while helper is not None and (item := self._items.get()) is not None:
            try:
                if isinstance(item, _Ask):
                    item.question = helper.question(item.head, item.bounds)
                elif isinstance(item, _Ended):
                    if item.helper is helper:
                        raise ConnectionError
                else:
                    helper.send(item[0], [item[1]])
            except OSError:
                helper = self._restarted(helper)
            finally:
                if isinstance(item, _Ask):
                    item.begun.set()
        if helper is not None:
            helper.close(seconds=60)

    def _started(self) -> Helper:
        helper = Helper("thalweg.server.keeper_process", str(self.path))
        thread = threading.Thread(target=self._receive, args=(helper,), name="thalweg-kept", daemon=True)
        thread.start()
        return helper

    def _restarted(self, helper: Helper) -> Helper | None:
        """A new process, which gets what the old one has not taken; None where the service ends."""
        while True:
            helper.close(seconds=0)
            for _ in range(int(10 * self._pause)):
                if self._closing:
                    return None
                time.sleep(0.1)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            helper = self._started()
            with self._changed:
                # All bodies of the queue are among those that are not kept.
                items = [self._items.get_nowait() for _ in range(self._items.qsize())]
                for item in items:
                    if item is None or isinstance(item, _Ask | _Ended):
                        self._items.put(item)
                bodies = list(self._unkept)
            try:
                for head, body in bodies:
                    helper.send(head, [body])
            except OSError:
                continue
            return helper

    def _receive(self, helper: Helper) -> None:
        while (frame := frames.receive(helper.socket)) is not None:
            told = frame[0]
            with self._changed:
                self._take(told)
                self._changed.notify_all()
        with self._changed:
            if not self._closing and self.failure is None:
                self.failure = "the process of the store has ended"
                logger.error("store", extra={"reason": self.failure})
            self._changed.notify_all()
        self._items.put(_Ended(helper))

    def _take(self, told: dict[str, Any]) -> None:
        if told["kind"] in ("failing", "refused"):
            if self.failure != told["reason"]:
                logger.error("store", extra={"reason": told["reason"]})
            self.failure = told["reason"]
            return
        self.failure, self._ready, self._pause = None, True, _PAUSE
        self.kept |= told["events"]
        for _ in range(told.get("bodies", 0)):
            _, body = self._unkept.popleft()
            self._bytes -= len(body)
        if told.get("unread"):
            self.unread += told["unread"]
            logger.error("store", extra={"reason": f"{told['unread']} bodies could not be read"})
