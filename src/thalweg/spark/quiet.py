"""Spark's log lines: what the Java process writes to stderr."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOG_NOISE = re.compile(
    rb"WARNING: Using incubator modules|Setting (default|Spark) log level|To adjust logging level use"
    rb"|(Starting )?Streaming TransformWithState\w* Python worker|\s*$"
)


def is_log_noise(line: bytes) -> bool:
    """Whether a line is useless to a user.

    >>> is_log_noise(b"WARNING: Using incubator modules: jdk.incubator.vector"), is_log_noise(b"ERROR: disk full")
    (True, False)
    """
    return _LOG_NOISE.match(line) is not None


_muted = threading.Event()


def mute() -> None:
    """Leave out all that Java writes from now on: its query is being stopped, and it logs tasks that it interrupts as
    errors. What fails in earnest is raised here.
    """
    _muted.set()


@contextmanager
def without_log_noise() -> Iterator[None]:
    """Processes started within write their errors through a filter, for as long as they live."""
    _muted.clear()
    read, write = os.pipe()
    real = os.dup(2)
    os.dup2(write, 2)
    os.close(write)
    threading.Thread(target=_forward, args=(read, os.dup(real)), name="thalweg-stderr", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(real, 2)
        os.close(real)


def _forward(read: int, target: int) -> None:
    with os.fdopen(read, "rb") as lines, os.fdopen(target, "wb", buffering=0) as out:
        for line in lines:
            if not is_log_noise(line) and not _muted.is_set():
                out.write(line)
