"""Deep recursion: a call that may nest as deeply as a query does, in a thread with a stack for it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_FRAMES = 200_000
_STACK = 512 << 20  # bytes of address space; memory is used as far as the recursion goes
_ALONE = threading.Lock()
_NAME = "thalweg-deep"


def deeply(function: Callable[[], T]) -> T:
    """The result of a function that may recurse very deeply.

    >>> def nested(depth: int) -> int:
    ...     return depth and 1 + nested(depth - 1)
    >>> deeply(lambda: nested(20_000))
    20000
    """
    if threading.current_thread().name == _NAME:
        return function()
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(function())
        except BaseException as error:
            failed.append(error)

    # The limit of frames and the size of new stacks are the interpreter's, so one call at a time changes them.
    with _ALONE:
        frames, stack = sys.getrecursionlimit(), threading.stack_size(_STACK)
        try:
            sys.setrecursionlimit(max(frames, _FRAMES))
            thread = threading.Thread(target=run, name=_NAME)
            thread.start()
        finally:
            threading.stack_size(stack)
        thread.join()
        sys.setrecursionlimit(frames)
    if failed:
        raise failed[0]
    return found[0]
