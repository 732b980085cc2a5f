"""The one exception tree, and the warnings: a message says what was wrong, where, and what to do."""

from __future__ import annotations

import os
import sys
import warnings

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class ThalwegError(Exception):
    """Anything that Thalweg refuses or cannot do.

    >>> str(ThalwegError("unknown prefix 'ub'", source="q.rq", line=3, column=7))
    "q.rq:3:7: unknown prefix 'ub'"
    """

    def __init__(
        self,
        reason: str,
        *,
        source: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.reason = reason
        self.source = source
        self.line = line
        self.column = column
        place = ":".join(str(part) for part in (source, line, column) if part is not None)
        super().__init__(f"{place}: {reason}" if place else reason)


class QueryError(ThalwegError):
    """A query text that is wrong: syntax, unknown prefix, contradiction."""


class UnsupportedError(QueryError):
    """A query text that is right but asks for something that this version does not do."""


class DataError(ThalwegError):
    """A piece of input that is malformed; raised only where `on_error="fail"`."""


class LimitError(ThalwegError):
    """A query that ends while the other queries of its session go on.

    It needs more than a limit allows, or its streams have deletes that it cannot take.
    """


class ThalwegWarning(UserWarning):
    """Something that is valid and can hardly be meant, such as a selected variable that nothing binds."""


class UsageError(ThalwegError):
    """A call or a command line that cannot be carried out as written."""


class UnboundError(UsageError, KeyError):
    """A variable that a row does not bind."""

    def __str__(self) -> str:
        return self.reason  # and not in quotes, as that of KeyError


def warn(message: str) -> None:
    """Give a `ThalwegWarning` that points at the caller's line, outside of this package."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, ThalwegWarning, stacklevel=level + 1)
