"""A question is answered by a fork of a helper process: it sees the content as it was, and a signal can end it.

Nothing can interrupt a query of Oxigraph or a kernel in a thread. A process that has taken too long is ended by its
alarm, and one that takes too much memory by the limit of its address space; neither touches the helper.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

Answer = tuple[dict[str, Any], bytes]
"""What is to be said of an answer, and its bytes."""
_NICE = 5
"""The engine goes first where there are few cores."""


def prepare() -> None:
    """Sets a helper process up: it ends when the server closes its socket, and not by the signals of a terminal."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended forks need no parent to ask for them


def server_socket() -> socket.socket:
    """The socket to the server, whose number is the first argument of a helper process."""
    return socket.socket(fileno=int(sys.argv[1]))


def answer_in_fork(
    file: int, head: dict[str, Any], answer: Callable[[], Answer], *, close: tuple[int, ...], opens: bool
) -> None:
    """Has a fork write an answer to a file; `head` has the limits `seconds` and `memory` (bytes more than now).

    Unless the fork `opens` files, it can open neither files nor connections.
    """
    if os.fork():
        os.close(file)
        return
    _run(file, head, answer, close, opens)


def _run(
    file: int, head: dict[str, Any], answer: Callable[[], Answer], close: tuple[int, ...], opens: bool
) -> NoReturn:
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(head["seconds"], 0.001))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if (now := _address_space()) is not None:
            resource.setrlimit(resource.RLIMIT_AS, (now + head["memory"],) * 2)
        os.nice(_NICE)
        for one in close:
            os.close(one)
        if not opens:
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
        try:
            about, data = answer()
        except MemoryError:
            about, data = {"status": "memory"}, b""
        with open(file, "wb") as out:
            out.write(json.dumps({**about, "bytes": len(data)}).encode() + b"\n")
            out.write(data)
    except BrokenPipeError:
        pass  # whoever asked has gone
    except BaseException:
        report()
    finally:
        os._exit(0)


def report() -> None:
    """Prints the error at hand to stderr, which may be a file on a disk that is full."""
    with suppress(OSError):
        traceback.print_exc()


def _address_space() -> int | None:
    """Bytes of the address space of this process; None where the system does not say it: then memory has no limit."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return None
