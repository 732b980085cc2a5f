"""The commands `store create`, `append`, `ask`, `stats` and `compact`: events that are kept, and SPARQL over them."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thalweg.cli.convert import Contexts, Format, TimePredicate
from thalweg.cli.program import FAILURE, INTERRUPTED, app, reader_has_gone
from thalweg.cli.run import BlankNodes, OnError, Runner
from thalweg.errors import UsageError

if TYPE_CHECKING:
    from thalweg.store.asking import AsOf

commands = typer.Typer(
    help="Keep events on disk, and ask SPARQL of what is or was there.", no_args_is_help=True
)
app.add_typer(commands, name="store")

Folder = Annotated[Path, typer.Argument(metavar="STORE", help="The folder of the store.")]
On = Annotated[Runner, typer.Option(help="A store of this process, or a table of Parquet files on Spark.")]


class AnswerFormat(StrEnum):
    """How an answer is written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    TSV = "tsv"
    XML = "xml"
    NT = "nt"
    TURTLE = "turtle"


@commands.command()
def create(store: Folder, on: On = Runner.LOCAL) -> None:
    """Create an empty store in a folder; one that is there stays as it is."""
    if on is Runner.SPARK:
        from thalweg.spark.store_table import Table

        Table.create(store)
        return
    from thalweg.store.store import Store

    Store.create(store).close()


@commands.command()
def append(
    store: Folder,
    stream: Annotated[
        list[str],
        typer.Option(
            metavar="IRI=PATH", help="A stream, and the file or folder that it is read from; may be repeated."
        ),
    ],
    on: On = Runner.LOCAL,
    writer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Go on where a run of this name stopped: nothing is appended twice."
        ),
    ] = None,
    format: Format = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[IRI=]PATH", help="A mapping (YARRRML) that makes RDF of rows; may be repeated."
        ),
    ] = None,
    per_event: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Statements of an event, where a file has none.")
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(metavar="R", min=1, help="Events per second, where a file has no times [1000]."),
    ] = None,
    blank_nodes: Annotated[
        BlankNodes, typer.Option(help="Scope of blank node labels: an event, or the whole store.")
    ] = BlankNodes.EVENT,
    time_predicate: TimePredicate = None,
    contexts: Contexts = None,
    quarantine: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write malformed input there, as JSON lines.")
    ] = None,
    on_error: Annotated[
        OnError, typer.Option(help="Quarantine and count malformed input, or end the run.")
    ] = OnError.QUARANTINE,
    force: Annotated[bool, typer.Option("--force", help="Replace a quarantine that exists.")] = False,
) -> None:
    """Append the events of files to a store."""
    from thalweg.io.inputs import inputs_of, mappings_of
    from thalweg.io.live import is_live
    from thalweg.io.safety import check_outputs
    from thalweg.options import OptionError, RunOptions

    inputs = inputs_of(stream)
    for path in inputs.values():
        if is_live(path):
            raise UsageError(
                "files and folders are appended: run `thalweg serve` for live sources", source=path
            )
    mappings, own = mappings_of(mapping or (), inputs)
    try:
        options = RunOptions(
            format=format,
            mapping=mappings,
            per_event=per_event,
            rate=rate,
            blank_nodes="stable" if blank_nodes is BlankNodes.STABLE else "event",
            time_predicate=time_predicate,
            contexts=None if contexts is None else str(contexts),
            on_error="fail" if on_error is OnError.FAIL else "quarantine",
        )
    except OptionError as wrong:
        raise UsageError(wrong.as_flag) from None
    check_outputs({"--quarantine": quarantine}, inputs=inputs, queries=own, force=force)
    from thalweg.store.appending import append_files

    with _opened(store, on) as opened:
        done = append_files(opened, inputs, options, quarantine=quarantine, writer=writer)
    for line in done.lines():
        print(f"thalweg: {line}", file=sys.stderr)
    if done.interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FAILURE if done.failed else 0)


@commands.command()
def ask(
    store: Folder,
    query: Annotated[str, typer.Argument(metavar="QUERY.rq", help="A file with the query, or - for stdin.")],
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Ask of the content at an instant, or of a window START/END (after START)."
        ),
    ] = None,
    on: On = Runner.LOCAL,
    out_format: Annotated[
        AnswerFormat | None,
        typer.Option(help="Format of the answer [a table on a terminal, else JSON; a graph: N-Triples]."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print how the query is answered, instead of the answer.")
    ] = False,
) -> None:
    """Print the answer of a SPARQL query over the content of a store, now or at an earlier instant."""
    from thalweg.store.printing import written

    try:
        text = (sys.stdin.buffer.read() if query == "-" else Path(query).read_bytes()).decode()
    except OSError as error:
        raise UsageError(f"the query cannot be read: {error.strerror or error}", source=query) from None
    except UnicodeDecodeError:
        raise UsageError("the query is not UTF-8 text", source=query) from None
    at = as_of_text(as_of)
    format = None if out_format is None else out_format.value
    try:
        with _opened(store, on) as opened:
            if explain:
                for line in opened.explain(text, as_of=at).lines():
                    print(line)
                return
            for part in written(opened.ask(text, as_of=at), format, terminal=sys.stdout.isatty()):
                sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise typer.Exit(reader_has_gone()) from None


@commands.command()
def stats(store: Folder, on: On = Runner.LOCAL) -> None:
    """Print how much a store holds."""
    with _opened(store, on) as opened:
        for line in opened.stats().lines():
            print(line)


@commands.command()
def compact(
    store: Folder,
    before: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Drop the history up to this instant; its content is kept."),
    ] = None,
    on: On = Runner.LOCAL,
) -> None:
    """Merge the small pieces of a store; with --before, drop old history."""
    with _opened(store, on) as opened:
        opened.compact(before=before)


def as_of_text(text: str | None) -> AsOf | None:
    """An instant, or a window as `START/END`."""
    if text is None:
        return None
    start, slash, end = text.partition("/")
    return (start, end) if slash else text


def _opened(path: Path, on: Runner) -> Any:
    from thalweg.store.store import Store

    has_table = (path / "_thalweg_store.json").is_file()
    if on is Runner.LOCAL:
        if has_table:
            raise UsageError("this is a store on Spark: add --on spark", source=str(path))
        return Store.open(path)
    if not has_table and (path / "store.json").is_file():
        raise UsageError("this is a store of one process: leave out --on spark", source=str(path))
    from thalweg.spark.store_command import opened

    return opened(path)
