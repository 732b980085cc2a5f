"""The command `serve`: the service over HTTP."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli.program import app
from thalweg.cli.run import Runner
from thalweg.errors import UsageError

if TYPE_CHECKING:
    from thalweg.server.running import Serving
    from thalweg.server.service import Service


@app.command()
def serve(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the log, the snapshots and the token.")
    ] = Path("thalweg-data"),
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address; others than loopback need a token to read, too.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 7411,
    tokens: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Tokens: lines `read TOKEN`, `write TOKEN` [a generated one in --data]."
        ),
    ] = None,
    lateness: Annotated[
        str, typer.Option(metavar="DURATION", help="Allowed lateness of events, of a new data folder.")
    ] = "0",
    buffer: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows of a query that are kept for its subscribers.")
    ] = 10_000,
    max_body: Annotated[int, typer.Option(metavar="BYTES", min=1, help="Largest body.")] = 16 << 20,
    max_queries: Annotated[int, typer.Option(metavar="N", min=1, help="Most queries.")] = 10_000,
    max_memory: Annotated[
        int | None, typer.Option(metavar="BYTES", min=1, help="Most memory of the session [no limit].")
    ] = None,
    max_rate: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Most events a second [no limit].")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the events of all streams in the store of the data folder.")
    ] = False,
    ask_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.001, help="Longest time of a SPARQL query.")
    ] = 30.0,
    ask_memory: Annotated[
        int, typer.Option(metavar="BYTES", min=1 << 20, help="Most memory of a SPARQL query.")
    ] = 1 << 30,
    snapshot_bytes: Annotated[
        int, typer.Option(metavar="BYTES", min=1, help="Write a snapshot when the log has so many bytes.")
    ] = 64 << 20,
    threads: Annotated[int, typer.Option(metavar="N", min=1, help="Threads that match.")] = 1,
    log: Annotated[str, typer.Option(metavar="json|text", help="How logs on stderr are written.")] = "json",
    log_requests: Annotated[
        bool, typer.Option("--log-requests/--no-log-requests", help="Log each request.")
    ] = True,
    on: Annotated[Runner, typer.Option(help="Where queries run.")] = Runner.LOCAL,
    shards: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Spark: over how many tasks queries are spread, in a new data folder [cores].",
        ),
    ] = None,
    static: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[IRI=]PATH", help="Spark: static data that all queries can read; may be repeated."
        ),
    ] = None,
) -> None:
    """Serve streams and queries over HTTP: see docs/service.md."""
    if on is not Runner.SPARK and shards is not None:
        raise UsageError("--shards is for --on spark")
    if on is not Runner.SPARK and static:
        raise UsageError("--static is for --on spark: else PUT /static loads static data")
    here = {"--max-memory": max_memory is not None, "--threads": threads != 1}
    for option, is_set in here.items():
        if is_set and on is Runner.SPARK:
            raise UsageError(f"{option} is for queries in this process")
    if keep and on is Runner.SPARK:
        raise UsageError("--keep is for queries in this process: on Spark, write the stream to a store")
    if log not in ("json", "text"):
        raise UsageError(f"--log is json or text, not {log!r}")
    try:
        from thalweg.server.running import Running, Serving, set_up_logs
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"the service needs {missing.name}: install it with pip install 'thalweg[serve]'"
        ) from None
    from thalweg.options import OptionError, RunOptions
    from thalweg.server.service import Limits
    from thalweg.server.state import Settings

    try:
        RunOptions(lateness=lateness)
    except OptionError as wrong:
        raise UsageError(wrong.as_flag) from None
    set_up_logs(as_json=log == "json", requests=log_requests)
    serving = Serving(
        data,
        host,
        port,
        tokens,
        Settings(lateness, buffer, threads, keep),
        Limits(max_body, max_queries, max_memory, max_rate, ask_seconds=ask_seconds, ask_memory=ask_memory),
        snapshot_bytes,
    )
    running = Running(serving, _on_spark(serving, shards, static or []) if on is Runner.SPARK else None)
    if tokens is None:
        print(f"thalweg: the token is in {data / 'token'}", file=sys.stderr)
    print(f"thalweg: serving {running.url}", file=sys.stderr, flush=True)
    # What lives as long as the process need not be looked at by the collector: a pass over it takes 100 ms and more.
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(0.001)  # answers do not wait while the engine matches, nor the engine for them
    asyncio.run(running.serve())


def _on_spark(serving: Serving, shards: int | None, static: list[str]) -> Service:
    """The service whose queries run on Spark."""
    from thalweg.io.static import static_of

    background = static_of(static)
    try:
        from thalweg.spark.service import SparkService
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"--on spark needs {missing.name}: install it with pip install 'thalweg[serve]'"
        ) from None
    return SparkService(
        serving.data,
        settings=serving.settings,
        limits=serving.limits,
        snapshot_bytes=serving.snapshot_bytes,
        static=background,
        shards=shards,
    )
