"""The command `materialise`: what follows from files under a schema, written out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from thalweg.cli.convert import Contexts, Format
from thalweg.cli.program import FAILURE, Rules, app, read_schema, reader_has_gone
from thalweg.cli.run import OnError, Runner
from thalweg.errors import UsageError


@app.command()
def materialise(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="A file, a folder, a pattern, or - for stdin.")
    ],
    schema: Annotated[Path, typer.Option(metavar="PATH", help="The schema: RDFS, some OWL.")],
    rules: Rules = None,
    out: Annotated[Path, typer.Option(metavar="PATH", help="A file .nt or .nq [stdout].")] = Path("-"),
    out_format: Annotated[
        str | None, typer.Option(metavar="NAME", help="Format of the output: nt or nq [by suffix].")
    ] = None,
    format: Format = None,
    contexts: Contexts = None,
    on: Annotated[Runner, typer.Option(help="Where it runs.")] = Runner.LOCAL,
    quarantine: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write malformed input there, as JSON lines.")
    ] = None,
    on_error: Annotated[
        OnError, typer.Option(help="Quarantine and count malformed input, or write nothing.")
    ] = OnError.QUARANTINE,
    force: Annotated[bool, typer.Option("--force", help="Replace outputs that exist.")] = False,
) -> None:
    """Write the closure of files under a schema: their triples and all that follow, each graph by itself."""
    from thalweg.io.inputs import existing
    from thalweg.io.materialising import Materialisation, check_materialisation
    from thalweg.io.materialising import materialise as in_process
    from thalweg.io.safety import check_outputs
    from thalweg.options import OptionError, RunOptions

    try:
        options = RunOptions(
            format=format,
            blank_nodes="stable",
            contexts=None if contexts is None else str(contexts),
            on_error="fail" if on_error is OnError.FAIL else "quarantine",
        )
    except OptionError as wrong:
        raise UsageError(wrong.as_flag) from None
    existing(source)
    job = Materialisation(source, out, read_schema(schema, rules), options, out_format, quarantine)
    check_materialisation(job)
    check_outputs(
        {"--out": out, "--quarantine": quarantine},
        inputs={"FILE": source, "the schema": str(schema)},
        queries=[],
        force=force,
    )
    try:
        if on is Runner.SPARK:
            from thalweg.spark.closures import materialise_on_spark

            done = materialise_on_spark(job)
        else:
            done = in_process(job)
    except BrokenPipeError:
        raise typer.Exit(reader_has_gone()) from None
    for line in done.lines():
        print(f"thalweg: {line}", file=sys.stderr)
    raise typer.Exit(FAILURE if done.quarantined and not done.written else 0)
