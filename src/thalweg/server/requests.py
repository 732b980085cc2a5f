"""Requests that wait for the engine, and runs of them that are read and taken at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from thalweg.errors import ThalwegError
from thalweg.rdf.arena import Ids
from thalweg.rdf.texts import ended
from thalweg.server.bodies import Read
from thalweg.server.errors import error_text
from thalweg.server.messages import FORMAT, RUN_BYTES
from thalweg.server.state import Counts, State

_KINDS = ("events", "messages")
_SAME = ("stream", "format", "per_event", "strict")


class Reply(Protocol):
    """Where the result of a request goes, in the engine's thread; a future is one."""

    def set_result(self, result: Any, /) -> None:
        """Takes the result."""

    def set_exception(self, error: BaseException, /) -> None:
        """Takes the error."""

    def done(self) -> bool:
        """Whether there is one or the other."""


@dataclass
class Request:
    """An operation that waits for the engine, or a function that looks at the state.

    The body of an operation `messages` is several messages one after the other, each with a line feed at its end; their
    `sizes` are in the operation, and the result is a list of JSON texts.
    """

    reply: Reply
    operation: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""
    look: Callable[[State], Any] | None = None
    check: Callable[[State], None] | None = None
    """What refuses the operation before it is logged."""
    errors: dict[int, ThalwegError] = field(default_factory=dict)
    """Of several messages those that were refused, by place."""
    counted: int = 0
    """Bytes of its body when it came."""

    def __post_init__(self) -> None:
        self.counted = len(self.body)

    @property
    def has_events(self) -> bool:
        """Whether it is about events, which can be carried out in groups."""
        return self.operation.get("kind") in _KINDS

    @property
    def key(self) -> str | None:
        """What makes the body known when it is sent again."""
        return self.operation.get("key")

    @property
    def sizes(self) -> list[int]:
        """The bytes of its messages."""
        found: list[int] | None = self.operation.get("sizes")
        return [len(self.body)] if found is None else found

    @property
    def record(self) -> bytes:
        """The operation as a record of the log."""
        return json.dumps(self.operation).encode() + b"\n" + self.body

    def answer(self, counts: Counts, start: int) -> Any:
        """What its client is told; `start` is the place of its first message among those counted."""
        if self.operation["kind"] == "events":
            return counts.answer(start)
        return self.with_errors(counts.texts(start, start + len(self.sizes)))

    def with_errors(self, texts: list[bytes]) -> list[bytes]:
        """The answers to its messages, with those of the refused ones."""
        for place in sorted(self.errors):
            texts.insert(place, error_text(self.errors[place]))
        return texts

    def drop(self, refused: dict[int, ThalwegError]) -> None:
        """Takes messages out that were refused."""
        self.errors = refused
        sizes, ends = self.sizes, list(accumulate(self.sizes))
        kept = [place for place in range(len(ends)) if place not in refused]
        self.body = b"".join(self.body[ends[k] - sizes[k] : ends[k]] for k in kept)
        self.operation["sizes"] = [sizes[k] for k in kept]


@dataclass
class Run:
    """Requests whose messages are read and taken at once: those of one stream that follow each other."""

    requests: list[Request]
    read: Read | None = None

    @property
    def operation(self) -> dict[str, Any]:
        """The operation of the first request; what matters of it is the same in all."""
        return self.requests[0].operation

    def takes(self, request: Request) -> bool:
        """Whether one more request can be read with the others."""
        return (
            self.operation["format"] == FORMAT
            and all(self.operation.get(name) == request.operation.get(name) for name in _SAME)
            and sum(len(one.body) for one in self.requests) + len(request.body) <= RUN_BYTES
        )

    def texts(self) -> tuple[bytes, list[int], Ids]:
        """The messages as one text, their sizes and their times."""
        requests = self.requests
        if len(requests) == 1:
            (request,) = requests
            sizes = request.sizes
            return request.body, sizes, np.full(len(sizes), request.operation["at"])
        bodies = [ended(request.body) for request in requests]
        sizes = [
            size
            for request, body in zip(requests, bodies, strict=True)
            for size in (request.operation.get("sizes") or [len(body)])
        ]
        counts = [len(request.sizes) for request in requests]
        return b"".join(bodies), sizes, np.repeat([one.operation["at"] for one in requests], counts)

    def starts(self) -> Iterator[tuple[int, Request]]:
        """The requests with the places of their first messages."""
        start = 0
        for request in self.requests:
            yield start, request
            start += len(request.sizes)
