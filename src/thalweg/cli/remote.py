"""`thalweg run --at URL`: a query and its streams on a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO

from thalweg.client import Remote, RemoteQuery, connect
from thalweg.errors import UsageError
from thalweg.io.inputs import files_of, inputs_of
from thalweg.io.live import STDIN, is_live
from thalweg.io.writers import JsonLines
from thalweg.options import RunOptions
from thalweg.rdf.pieces import pieces

_PIECE = 1 << 20


def run_at(
    url: str,
    query: str,
    streams: list[str],
    *,
    out: Path | None,
    format: str | None,
    schema: Path | None,
    rules: str | None,
) -> None:
    """Registers a query on a server, sends it the files, writes the rows as JSON lines, and drops the query."""
    inputs = inputs_of(streams)
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
                _send(remote, registered, inputs, options, sys.stdout.buffer)
            else:
                with open(out, "wb") as file:
                    _send(remote, registered, inputs, options, file)
        finally:
            remote.unregister(registered)


def _send(
    remote: Remote, query: RemoteQuery, inputs: dict[str, str], options: RunOptions, out: IO[bytes]
) -> None:
    writer = JsonLines(out, query.page["columns"], close=False)
    quarantined = late = 0
    for stream, path in inputs.items():
        if stream not in remote.streams:
            remote.declare(stream)
        for file in files_of(path, options):
            format = options.format_for(file)
            parts = (bytes(data) for _, data in pieces(file, _PIECE))
            # Whole lines can be sent apart from those before them; a document cannot.
            for part in parts if format.splittable and not format.has_graphs else [b"".join(parts)]:
                counts = remote.send(stream, part, format.name)
                quarantined, late = quarantined + counts["quarantined"], late + counts["late"]
                writer.write(query.poll())
    while True:
        page = query.inspect()  # before the poll: what the engine has seen by now has its rows
        waits = bool(page.get("waiting"))
        if waits and page["failed"]:
            raise UsageError(f"the query has failed: {page['failed']}")
        rows = query.poll("1s" if waits else "0")
        writer.write(rows)
        if not rows and not waits:
            break
    writer.flush()
    if quarantined or late:
        print(f"thalweg: {quarantined:,} quarantined, {late:,} late", file=sys.stderr)
