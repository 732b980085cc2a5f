"""The commands `convert` and `check`: files from one format to another, and what is in them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from thalweg.cli.program import FAILURE, INTERRUPTED, app, reader_has_gone
from thalweg.cli.run import BlankNodes, OnError
from thalweg.errors import UsageError

Format = Annotated[
    str | None, typer.Option(metavar="NAME", help="Format of the input: nt, turtle, rdfp, ... [by suffix].")
]
Contexts = Annotated[
    Path | None, typer.Option(metavar="DIR", help="JSON-LD: folder of the contexts that documents refer to.")
]
RowMapping = Annotated[
    str | None,
    typer.Option("--mapping", metavar="PATH", help="Rows: a mapping (YARRRML) that makes RDF of them."),
]
TimePredicate = Annotated[
    str | None,
    typer.Option(metavar="IRI", help="Predicate for the time of a graph [prov:generatedAtTime]."),
]


@app.command()
def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="A file, a folder, or - for stdin.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A file, or - for stdout.")],
    format: Format = None,
    out_format: Annotated[
        str | None, typer.Option(metavar="NAME", help="Format of OUT [by suffix; JSON lines to stdout].")
    ] = None,
    stream: Annotated[
        str | None, typer.Option(metavar="IRI", help="Name of the stream: graphs of events are called by it.")
    ] = None,
    per_event: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Statements of an event, where IN has no events.")
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(metavar="R", min=1, help="Events per second, where IN has no times [1000]."),
    ] = None,
    as_statements: Annotated[
        bool,
        typer.Option("--as-statements", help="Read graphs as statements: each is an event with its number."),
    ] = False,
    blank_nodes: Annotated[
        BlankNodes, typer.Option(help="Keep the labels of blank nodes, or make them local to their events.")
    ] = BlankNodes.STABLE,
    time_predicate: TimePredicate = None,
    contexts: Contexts = None,
    mapping: RowMapping = None,
    quarantine: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write malformed input there, as JSON lines.")
    ] = None,
    on_error: Annotated[
        OnError, typer.Option(help="Quarantine and count malformed input, or end the conversion.")
    ] = OnError.QUARANTINE,
    force: Annotated[bool, typer.Option("--force", help="Replace outputs that exist.")] = False,
) -> None:
    """Convert a file from one format to another; events keep their times, ops and graphs."""
    from thalweg.io.converting import STREAM, Conversion, check_conversion
    from thalweg.io.converting import convert as converted
    from thalweg.io.inputs import existing, mappings_of
    from thalweg.io.safety import check_outputs
    from thalweg.options import OptionError, RunOptions

    mappings, own = mappings_of([] if mapping is None else [mapping], {stream or STREAM: source})
    try:
        options = RunOptions(
            format=format,
            mode="triples" if as_statements else None,
            per_event=per_event,
            rate=rate,
            blank_nodes="stable" if blank_nodes is BlankNodes.STABLE else "event",
            time_predicate=time_predicate,
            contexts=None if contexts is None else str(contexts),
            mapping=mappings,
            on_error="fail" if on_error is OnError.FAIL else "quarantine",
        )
    except OptionError as wrong:
        raise UsageError(wrong.as_flag) from None
    existing(source)
    job = Conversion(source, target, options, out_format, stream, quarantine)
    check_conversion(job)
    check_outputs(
        {"OUT": target, "--quarantine": quarantine},
        inputs={stream or STREAM: source},
        queries=own,
        force=force,
    )
    try:
        done = converted(job)
    except BrokenPipeError:
        raise typer.Exit(reader_has_gone()) from None
    for line in done.lines():
        print(f"thalweg: {line}", file=sys.stderr)
    if done.interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(FAILURE if done.quarantined and not done.statements else 0)


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files or folders.")],
    format: Format = None,
    time_predicate: TimePredicate = None,
    contexts: Contexts = None,
    mapping: RowMapping = None,
    show: Annotated[
        int, typer.Option(metavar="N", min=0, help="Show the first N malformed pieces of each file.")
    ] = 10,
) -> None:
    """Validate files, count what is in them, and show what is malformed; the exit code is 1 if something is."""
    from thalweg.io.checking import STREAM, check_file
    from thalweg.io.inputs import existing, files_of, mappings_of
    from thalweg.io.live import is_live
    from thalweg.options import OptionError, RunOptions

    mappings, _ = mappings_of([] if mapping is None else [mapping], {STREAM: files[0]})
    try:
        options = RunOptions(
            format=format,
            time_predicate=time_predicate,
            contexts=None if contexts is None else str(contexts),
            mapping=mappings,
        )
    except OptionError as wrong:
        raise UsageError(wrong.as_flag) from None
    malformed = 0
    for path in files:
        if is_live(path):
            raise UsageError("a file is checked, and this is none: write it to a file first", source=path)
        existing(path)
        for file in files_of(path, options):
            found = check_file(file, options, show=show)
            malformed += found.malformed
            for line in found.lines():
                print(line)
    raise typer.Exit(FAILURE if malformed else 0)
