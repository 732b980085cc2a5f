"""Errors of the service, each with the status that a client gets."""

from __future__ import annotations

import json

from thalweg.errors import DataError, QueryError, ThalwegError, UsageError
from thalweg.server.log import DiskError


class UnknownError(ThalwegError):
    """A stream or a query that is not there."""


class ConflictError(ThalwegError):
    """Something that what is there forbids."""


class TooMuchError(ThalwegError):
    """More than a limit allows, for now."""

    def __init__(self, reason: str, *, seconds: float = 1.0) -> None:
        super().__init__(reason)
        self.seconds = seconds


class TooLargeError(ThalwegError):
    """A body above the limit."""


class TooSlowError(ThalwegError):
    """A body that comes too slowly."""


class DeniedError(ThalwegError):
    """A request without a token, or with one that does not allow it."""

    def __init__(self, reason: str, *, known: bool) -> None:
        """`known`: there is a token, and it does not allow this."""
        super().__init__(reason)
        self.known = known


class MediaTypeError(UsageError):
    """A content type that nothing reads."""


class NotAcceptableError(UsageError):
    """No content type that the client accepts."""


class OverloadedError(ThalwegError):
    """A question that takes more time or memory than it may."""


class UnsupportedError(ThalwegError):
    """Something that this server's engine cannot do, and another one can."""


class ClosedError(ThalwegError):
    """The server ends."""


class FailedError(ThalwegError):
    """An operation that the engine cannot carry out: an error in it."""


_STATUS: tuple[tuple[type[ThalwegError], int], ...] = (
    (UnknownError, 404),
    (ConflictError, 409),
    (TooMuchError, 429),
    (TooLargeError, 413),
    (TooSlowError, 408),
    (MediaTypeError, 415),
    (NotAcceptableError, 406),
    (UnsupportedError, 501),
    (DiskError, 503),
    (OverloadedError, 503),
    (ClosedError, 503),
    (QueryError, 400),
    (UsageError, 400),
    (DataError, 400),
)


def status_of(error: ThalwegError) -> int:
    """The status of an error."""
    if isinstance(error, DeniedError):
        return 403 if error.known else 401
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def error_text(error: ThalwegError) -> bytes:
    """An error as the answer to a message: JSON."""
    return json.dumps({"error": error.reason, "status": status_of(error), "line": error.line}).encode()
