"""The command `run`: a query over streams, in this process or on Spark."""

from __future__ import annotations

import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thalweg.cli.program import (
    FAILURE,
    INTERRUPTED,
    QueryFile,
    Rules,
    SchemaFile,
    StaticFiles,
    app,
    parse_file,
    reader_has_gone,
    with_schema,
)
from thalweg.errors import ThalwegWarning, UsageError

if TYPE_CHECKING:
    from thalweg.io.job import Job
    from thalweg.io.outcome import Outcome
    from thalweg.io.progress import Meter
    from thalweg.spark.command import OnSpark


_AT = frozenset({"at", "query", "stream", "out", "format", "schema", "rules", "force"})
"""Options of a run on a server."""


class Runner(StrEnum):
    """Where a query runs."""

    LOCAL = "local"
    SPARK = "spark"


class BlankNodes(StrEnum):
    """What a blank node's label is local to."""

    EVENT = "event"
    STABLE = "stable"


class OnPartialMatches(StrEnum):
    """What too many partial matches of a sequence do to a run."""

    SHED = "shed"
    FAIL = "fail"


class OnError(StrEnum):
    """What malformed input does to a run."""

    QUARANTINE = "quarantine"
    FAIL = "fail"


@app.command()
def run(
    context: typer.Context,
    query: QueryFile,
    stream: Annotated[
        list[str],
        typer.Option(
            metavar="IRI=PATH",
            help="A stream, and what it is read from: a file or folder (.nt, .nq, .ttl, .trig, .jsonld, .rdf, .n3; "
            "rows: .csv, .tsv; also .gz, .zst, .bz2), - for stdin, tcp://HOST:PORT, mqtt://HOST/TOPIC; "
            "may be repeated.",
        ),
    ],
    static: StaticFiles = None,
    static_cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the binary form of static data, for later runs."),
    ] = None,
    on: Annotated[Runner, typer.Option(help="Where the query runs.")] = Runner.LOCAL,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Results: .jsonl, .csv, .tsv, .parquet, .srj, .srx; of CONSTRUCT also .nq, .nt, .trig, .ttl, .rdfp; "
            "text also .gz, .zst [stdout].",
        ),
    ] = None,
    out_format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Format of --out, e.g. sparql-csv [by suffix; JSON lines to stdout]."
        ),
    ] = None,
    pretty: Annotated[
        bool | None,
        typer.Option("--pretty/--no-pretty", help="Print a table for people [if stdout is a terminal]."),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Format of all files: nt, nq, turtle, trig, jsonld, rdfxml, n3, rdfp, ru, jsonl, jelly; of rows: "
            "csv, tsv or json-rows [by suffix].",
        ),
    ] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[IRI=]PATH",
            help="A mapping (YARRRML) that makes RDF of rows, for all streams or for one; may be repeated.",
        ),
    ] = None,
    per_event: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of statements per event [a line, or a document]."),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(
            metavar="R", min=1, help="Events without a time: so many per second, not one per millisecond."
        ),
    ] = None,
    speedup: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Replay: pass X seconds of event time in a second [as fast as possible]."
        ),
    ] = None,
    loop: Annotated[
        int, typer.Option(metavar="N", min=0, help="Replay: read the files N times, 0 for ever.")
    ] = 1,
    arrival: Annotated[
        bool, typer.Option("--arrival", help="Use the time at which an event arrives as its time.")
    ] = False,
    blank_nodes: Annotated[
        BlankNodes, typer.Option(help="Scope of blank node labels: an event, or the whole stream.")
    ] = BlankNodes.EVENT,
    contexts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="JSON-LD: folder of the contexts that documents refer to."),
    ] = None,
    unpack_ratio: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Refuse compressed files that unpack to more than N times their size."
        ),
    ] = 200,
    time_predicate: Annotated[
        str | None,
        typer.Option(
            metavar="IRI", help="N-Quads: predicate for the time of a graph [prov:generatedAtTime]."
        ),
    ] = None,
    lateness: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Allowed lateness of events: 10s, PT1M, 500 (milliseconds)."),
    ] = "0",
    quarantine: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write malformed input there, as JSON lines.")
    ] = None,
    late: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write late events there, as JSON lines.")
    ] = None,
    on_error: Annotated[
        OnError, typer.Option(help="Quarantine and count malformed input, or end the run.")
    ] = OnError.QUARANTINE,
    max_path_pairs: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Most pairs of terms that one path with + or * may connect [10000000]."
        ),
    ] = None,
    max_partial_matches: Annotated[
        int | None,
        typer.Option(metavar="N", min=4, help="Most partial matches that one sequence may have [10000000]."),
    ] = None,
    on_partial_matches: Annotated[
        OnPartialMatches, typer.Option(help="Drop the oldest of more partial matches, or end the run.")
    ] = OnPartialMatches.SHED,
    progress: Annotated[
        bool | None,
        typer.Option("--progress/--no-progress", help="Show progress [if stderr is a terminal]."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Spark: directory to save progress in and to resume from."),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Spark: number of tasks that match in parallel [cores]."),
    ] = None,
    drain: Annotated[
        bool,
        typer.Option("--drain", help="After the last event, advance time until the windows are empty."),
    ] = False,
    derive: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUERY.rq", help="A CONSTRUCT query whose output stream the query reads; may be repeated."
        ),
    ] = None,
    schema: SchemaFile = None,
    rules: Rules = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Spark: keep reading new lines and files until stopped.")
    ] = False,
    progress_json: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Spark: append the metrics of each batch, as JSON lines."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace outputs that exist.")] = False,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Run the query on a server (thalweg serve), with the token of THALWEG_TOKEN."
        ),
    ] = None,
) -> None:
    """Run a query over streams, and write the changes of its answer."""
    if at is not None:
        from thalweg.cli.remote import run_at
        from thalweg.io.inputs import inputs_of
        from thalweg.io.safety import check_outputs

        for name in context.params:
            source = context.get_parameter_source(name)
            if name not in _AT and source is not None and source.name == "COMMANDLINE":
                raise UsageError(f"--{name.replace('_', '-')} is not for --at: the server decides it")
        inputs = inputs_of(stream)
        check_outputs({"--out": out}, inputs=inputs, queries=[query], force=force)
        done = run_at(at, query, inputs, out=out, format=format, schema=schema, rules=rules)
        raise typer.Exit(_conclude(done))
    from thalweg.io.inputs import inputs_of, mappings_of
    from thalweg.io.job import Job, Outputs
    from thalweg.io.live import STDIN
    from thalweg.io.safety import check_outputs
    from thalweg.io.static import static_of
    from thalweg.options import LIMITS, OptionError, RunOptions

    inputs = inputs_of(stream)
    if checkpoint is not None and on is not Runner.SPARK:
        raise UsageError("--checkpoint is for --on spark: a local run begins at the beginning")
    if follow and drain:
        raise UsageError("--drain is for streams that end, and with --follow none does")
    others = {"--shards": shards, "--follow": follow or None, "--progress-json": progress_json}
    for option, value in others.items():
        if value is not None and on is not Runner.SPARK:
            raise UsageError(f"{option} is for --on spark")
    here = {
        "--speedup": speedup is not None,
        "--loop": loop != 1,
        "--arrival": arrival,
    }
    for option, is_set in here.items():
        if is_set and on is Runner.SPARK:
            raise UsageError(f"{option} is for runs in this process")
    if STDIN in inputs.values() and STDIN in (query, *(derive or ())):
        raise UsageError("the query and a stream cannot both be read from the standard input")
    default = next(iter(inputs)) if len(inputs) == 1 else None
    background = static_of(static or (), static_cache)
    graphs = background.names
    parsed = with_schema(parse_file(query, default=default, graphs=graphs), schema, rules)
    mappings, mapping_files = mappings_of(mapping or (), inputs)
    texts = [query, *(derive or ()), *mapping_files, *([] if schema is None else [schema])]
    outputs = {
        "--out": out or Path("-"),
        "--quarantine": quarantine,
        "--late": late,
        "--progress-json": progress_json,
    }
    to_stdout = out is None or str(out) == "-"
    if pretty and (out_format is not None or not to_stdout):
        raise UsageError("--pretty is for the standard output: leave --out and --out-format out")
    if pretty is None:
        pretty = to_stdout and out_format is None and sys.stdout.isatty()
    try:
        options = RunOptions(
            format=format,
            mapping=mappings,
            per_event=per_event,
            rate=rate,
            speedup=speedup,
            loop=loop,
            arrival=arrival,
            blank_nodes="stable" if blank_nodes is BlankNodes.STABLE else "event",
            contexts=None if contexts is None else str(contexts),
            unpack_ratio=unpack_ratio,
            time_predicate=time_predicate,
            lateness=lateness,
            on_error="fail" if on_error is OnError.FAIL else "quarantine",
            drain=drain,
            max_path_pairs=max_path_pairs or LIMITS.path_pairs,
            max_partial_matches=max_partial_matches or LIMITS.partial_matches,
            on_partial_matches="fail" if on_partial_matches is OnPartialMatches.FAIL else "shed",
            shards=shards,
        )
    except OptionError as wrong:
        raise UsageError(wrong.as_flag) from None
    job = Job.of_files(
        parsed,
        inputs,
        options,
        Outputs(out, quarantine, late, out_format, pretty),
        derive=[parse_file(path, default=default, graphs=graphs) for path in derive or ()],
        static=background,
        own=[path for path in (*texts, checkpoint, *outputs.values()) if path is not None],
    )
    spark = None
    if on is Runner.SPARK:
        from thalweg.io.outputs import check_output
        from thalweg.spark.command import OnSpark

        check_output(parsed, out, out_format, resumable=checkpoint is not None)
        spark = OnSpark(checkpoint, follow, progress_json)
    resumes = spark is not None and spark.resumes
    check_outputs(outputs, inputs=inputs, queries=texts, force=force, resumes=resumes)
    if force and not resumes and progress_json is not None and progress_json.is_file():
        progress_json.write_bytes(b"")  # a log is added to: this begins it anew
    if progress is None:
        # A bar and result lines on one terminal would write over each other.
        progress = sys.stderr.isatty() and (not to_stdout or not sys.stdout.isatty())
    raise typer.Exit(_carry_out(job, progress, spark))


def _carry_out(job: Job, show: bool, spark: OnSpark | None = None) -> int:
    """Run a job, print at the end what it did and what it left out, and return the exit code."""
    from thalweg.io.progress import Meter

    follow = (spark is not None and spark.follow) or bool(job.live) or job.options.loop == 0
    try:
        with Meter(job, show, follow) as meter, warnings.catch_warnings():
            warnings.simplefilter("ignore", ThalwegWarning)  # the last lines have them
            done = _run_here(job, meter) if spark is None else _run_on_spark(job, spark, meter)
    except BrokenPipeError:
        return reader_has_gone()
    # A run that would go on for ever has done all it should when it is stopped.
    return _conclude(done) or (INTERRUPTED if done.interrupted and not follow else 0)


def _conclude(done: Outcome) -> int:
    """Print what a run did and what it left out; its exit code."""
    for line in done.lines():
        print(f"thalweg: {line}", file=sys.stderr)
    return FAILURE if done.failed else 0


def _run_here(job: Job, meter: Meter) -> Outcome:
    from thalweg.io.local import run_in_process

    return run_in_process(job, meter)


def _run_on_spark(job: Job, options: OnSpark, meter: Meter) -> Outcome:
    from thalweg.spark.command import run_on_spark

    return run_on_spark(job, options, meter)
