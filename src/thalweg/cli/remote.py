"""`thalweg run --at URL`: a query and its streams on a server."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import IO

from thalweg.client import Remote, RemoteQuery, connect
from thalweg.errors import UsageError
from thalweg.io.inputs import files_of
from thalweg.io.live import STDIN, is_live
from thalweg.io.outcome import Outcome
from thalweg.io.writers import JsonLines
from thalweg.options import RunOptions
from thalweg.rdf.pieces import pieces

_PIECE = 1 << 20


def run_at(
    url: str,
    query: str,
    inputs: dict[str, str],
    *,
    out: Path | None,
    format: str | None,
    schema: Path | None,
    rules: str | None,
) -> Outcome:
    """Registers a query on a server, sends it the files, writes the rows as JSON lines, and drops the query."""
    begin = time.perf_counter()
    options = RunOptions(format=format)
    if any(is_live(path) for path in inputs.values()):
        raise UsageError("--at sends files: a live source is read where it is")
    text = sys.stdin.read() if query == STDIN else Path(query).read_text(encoding="utf-8")
    with connect(url) as remote:
        registered = remote.register(
            text,
            stream=next(iter(inputs)) if len(inputs) == 1 else None,
            schema=schema,
            rules=None if rules is None else rules.split(","),
        )
        try:
            if out is None or str(out) == "-":
                outcome = _send(remote, registered, inputs, options, sys.stdout.buffer)
            else:
                with open(out, "wb") as file:
                    outcome = _send(remote, registered, inputs, options, file)
        finally:
            remote.unregister(registered)
    outcome.seconds = time.perf_counter() - begin
    return outcome


def _send(
    remote: Remote, query: RemoteQuery, inputs: dict[str, str], options: RunOptions, out: IO[bytes]
) -> Outcome:
    writer = JsonLines(out, query.page["columns"], close=False)
    outcome = Outcome()

    def deliver(wait: str = "0") -> int:
        rows = query.poll(wait)
        writer.write(rows)
        outcome.results += len(rows)
        return len(rows)

    untimed = False
    for stream, path in inputs.items():
        if stream not in remote.streams:
            remote.declare(stream)
        events, quarantined = outcome.events, outcome.quarantined
        for file in files_of(path, options):
            format = options.format_for(file)
            untimed |= not (format.has_graphs or format.has_events or format.has_rows)
            parts = (bytes(data) for _, data in pieces(file, _PIECE))
            # Whole lines can be sent apart from those before them; a document cannot.
            for part in parts if format.splittable and not format.has_graphs else [b"".join(parts)]:
                counts = remote.send(stream, part, format.name)
                for name in ("events", "triples", "quarantined", "late"):
                    setattr(outcome, name, getattr(outcome, name) + counts[name])
                deliver()
        outcome.failed |= outcome.events == events and outcome.quarantined > quarantined
    while True:
        page = query.inspect()  # before the poll: what the engine has seen by now has its rows
        waits = bool(page.get("waiting"))
        if waits and page["failed"]:
            raise UsageError(f"the query has failed: {page['failed']}")
        if not deliver("1s" if waits else "0") and not waits:
            break
    writer.flush()
    if untimed and outcome.events:
        outcome.hints.append(
            "events that state no time have that of their arrival at the server, one for all lines that are sent "
            "together: state times with N-Quads, TriG, JSON lines or RDF Patch"
        )
    return outcome
