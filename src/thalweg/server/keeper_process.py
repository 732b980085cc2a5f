"""The helper process of kept streams: it appends events to a store, and its forks answer SPARQL over that.

The server sends bodies as its log has them, with ascending numbers. The store notes how far each stream has come, so
that a body that is sent again counts once. Bodies that wait are one record for each stream, with one synchronisation.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyoxigraph as ox

from thalweg.errors import ThalwegError, UsageError
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.formats import FORMATS
from thalweg.rdf.prune import Prune
from thalweg.server import forks, frames
from thalweg.server.bodies import Framing, Read, read_body
from thalweg.server.messages import FORMAT, MessageReader
from thalweg.store.store import Store

_GROUP_BYTES = 4 << 20
_RETRY_SECONDS = 1.0
_LOCK_SECONDS = 60.0
_NOTHING = "ASK {}"


@dataclass
class Keeper:
    """A store, and the bodies that wait for it."""

    store: Store
    server: socket.socket
    _waiting: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)
    _bytes: int = 0
    _retry_at: float | None = None
    """When to try again, after the disk has refused a record."""

    def run(self) -> None:
        """Takes frames until the server has closed the socket."""
        while True:
            if select.select([self.server], [], [], self._patience())[0]:
                frame = frames.receive(self.server)
                if frame is None:
                    self._flush()
                    return
                head, body, files = frame
                if head["kind"] == "keep":
                    self._waiting.append((head, body))
                    self._bytes += len(body)
                    if self._bytes < _GROUP_BYTES or self._retry_at is not None:
                        continue
                else:
                    self._flush()
                    self._ask(head, files[0])
                    continue
            self._flush()

    def _patience(self) -> float | None:
        if self._retry_at is not None:
            return max(0.0, self._retry_at - time.monotonic())
        return 0.0 if self._waiting else None

    def _flush(self) -> None:
        """Appends what waits; if the disk does not take it, it waits on."""
        if not self._waiting or (self._retry_at is not None and time.monotonic() < self._retry_at):
            return
        by_stream: dict[str, list[tuple[dict[str, Any], bytes]]] = {}
        for head, body in self._waiting:
            by_stream.setdefault(head["stream"], []).append((head, body))
        unread = 0
        try:
            for stream, bodies in by_stream.items():
                unread += self._append(stream, bodies)
        except OSError as error:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            reason = f"the store cannot be written: {error.strerror or error}"
            frames.send(self.server, {"kind": "failing", "reason": reason})
            return
        self._retry_at = None
        events = self.store.events_by_stream()
        told = {
            "kind": "kept",
            "bodies": len(self._waiting),
            "unread": unread,
            "events": {stream: events.get(stream, 0) for stream in by_stream},
        }
        self._waiting, self._bytes = [], 0
        frames.send(self.server, told)

    def _append(self, stream: str, bodies: list[tuple[dict[str, Any], bytes]]) -> int:
        """Appends bodies of one stream as one record; how many of them could not be read."""
        writer = f"service {stream}"
        reached = self.store.position(writer)
        new = [one for one in bodies if reached is None or one[0]["number"] > reached]
        if not new:
            return 0
        arena, unread = Arena(), 0
        parts: list[Rows] = []
        first = 0
        for head, body in new:
            try:
                read = _read(head, body, arena, first)
            except (ThalwegError, ValueError, KeyError):  # the engine has read it: this is a defect
                forks.report()
                unread += 1
                continue
            parts += [batch.rows for batch in read.batches]
            first += int(read.events.sum())
        rows = Rows.concat(parts)
        clock = int(rows.time.max(initial=0))
        batch = EventBatch(stream, rows, clock)
        self.store.append(batch, arena, writer=writer, number=new[-1][0]["number"], rescope=True)
        return unread

    def _ask(self, head: dict[str, Any], file: int) -> None:
        broken = False
        try:
            if head["as_of"] is None:
                self.store.ask(_NOTHING)  # brings the content up to date, here and not in each fork
        except ThalwegError:
            forks.report()  # the fork finds the same, and says so
        except OSError:
            forks.report()
            broken = True
        answer = partial(_answer, self.store, head)
        forks.answer_in_fork(file, head, answer, close=(self.server.fileno(),), opens=True)
        if broken:  # what has failed to write once may refuse for ever: the server starts this process again
            raise BrokenPipeError


def _read(head: dict[str, Any], body: bytes, arena: Arena, first_event: int) -> Read:
    """The events of a body, as the engine reads them, but with all of their triples."""
    stream, at, everything = head["stream"], head["at"], Prune.everything()
    framing = Framing(**head["framing"])
    if head["format"] == FORMAT:
        sizes = head["sizes"] or [len(body)]
        reader = MessageReader(stream, arena, everything)
        times = np.full(len(sizes), at)
        return reader.read(body, sizes, times, per_event=framing.per_event or 1, first_event=first_event)
    format = FORMATS[head["format"]]
    number = head["number"]
    return read_body(
        body,
        format,
        stream,
        framing,
        at=at,
        number=number,
        first_event=first_event,
        arena=arena,
        prune=everything,
    )


def _answer(store: Store, head: dict[str, Any]) -> forks.Answer:
    as_of = head["as_of"]
    try:
        found = store.ask(head["text"], as_of=tuple(as_of) if isinstance(as_of, list) else as_of)
    except ThalwegError as error:
        place = {"line": error.line, "column": error.column}
        return {"status": "wrong", "message": error.reason, **place}, b""
    except OSError as error:
        return {"status": "disk", "message": f"the store cannot be read: {error.strerror or error}"}, b""
    media = head["graph_type"] if found.is_graph else head["solutions_type"]
    if media is None:
        return {"status": "unacceptable", "graph": found.is_graph}, b""
    format: Any = (ox.RdfFormat if found.is_graph else ox.QueryResultsFormat).from_media_type(media)
    return {"status": "ok", "type": media}, found.serialize(format=format) or b""


def _opened(path: Path) -> Store:
    """The store of a folder. After a crash of the server its last helper may still be closing it."""
    given_up = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return Store.create(path)
        except UsageError as error:
            if "another process" not in error.reason or time.monotonic() > given_up:
                raise
            time.sleep(0.05)


def warm_up() -> None:
    """Loads what questions use, so that each fork has it: else each would load it again."""
    pattern = "?a <http://ex/p> ?b"
    questions = (
        f"SELECT ?a (COUNT(?c) AS ?n) {{ {pattern} OPTIONAL {{ ?b <http://ex/p> ?c }} }} GROUP BY ?a ORDER BY ?a",
        f"SELECT DISTINCT ?a ?c {{ {pattern} . ?b <http://ex/p> ?c FILTER(?a != ?c) }} LIMIT 1",
        f"SELECT ?g {{ GRAPH ?g {{ {pattern} }} }}",
        f"ASK {{ {pattern} }}",
        f"CONSTRUCT {{ ?b <http://ex/q> ?a }} WHERE {{ {pattern} FILTER NOT EXISTS {{ ?b <http://ex/p> ?a }} }}",
    )
    with TemporaryDirectory() as folder, Store.create(Path(folder) / "store") as store:
        for at, name in enumerate("abc"):
            graph = f"<http://ex/{name}> <http://ex/p> <http://ex/{chr(ord(name) + 1)}> ."
            store.push("http://ex/s", at=at, graph=graph)
        for text in questions:
            for as_of in (None, 1):
                store.ask(text, as_of=as_of).serialize()


def main() -> None:
    """Opens the store that is the second argument, and serves it."""
    forks.prepare()
    server = forks.server_socket()
    try:
        store = _opened(Path(sys.argv[2]))
    except (ThalwegError, OSError) as error:
        frames.send(server, {"kind": "refused", "reason": str(error)})
        os._exit(1)
    frames.send(server, {"kind": "ready", "events": store.events_by_stream()})
    with suppress(OSError, ThalwegError):  # a disk that is full: then forks load it
        warm_up()
    with suppress(BrokenPipeError):  # the server has gone
        Keeper(store, server).run()
    try:
        store.close()
    except OSError:
        forks.report()  # its log is on the disk: the content is made again from that


if __name__ == "__main__":
    main()
