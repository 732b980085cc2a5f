"""Commands beside `run`: how a query is run, the demo and the benchmarks."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from thalweg.cli.program import QueryFile, Rules, SchemaFile, StaticFiles, app, parse_file, with_schema
from thalweg.errors import UsageError


class Drawing(StrEnum):
    """How `explain` shows a plan."""

    TEXT = "text"
    DOT = "dot"
    MERMAID = "mermaid"
    SVG = "svg"


@app.command()
def explain(
    query: QueryFile,
    stream: Annotated[
        str | None, typer.Option(metavar="IRI", help="The stream of a query that names none.")
    ] = None,
    shards: Annotated[
        int, typer.Option(metavar="N", min=1, help="Show how the query is spread over up to N shards.")
    ] = 1,
    format: Annotated[
        Drawing, typer.Option(help="Print a text, or draw the plan: for Graphviz, for Mermaid, or as SVG.")
    ] = Drawing.TEXT,
    schema: SchemaFile = None,
    rules: Rules = None,
    static: StaticFiles = None,
) -> None:
    """Show how a query is parsed and how it will be run."""
    from thalweg.io.static import static_of
    from thalweg.plan.explain import explain as explained

    background = static_of(static or ())
    parsed = parse_file(query, default=stream or "urn:thalweg:stream", graphs=background.names)
    parsed = with_schema(parsed, schema, rules)
    if static:
        background.require(parsed.graphs)
    print(explained(parsed, shards, format=format.value, static=background))


@app.command()
def demo() -> None:
    """Run the demo: a query on Spark that finds alarms in a stream of smart-grid readings."""
    from thalweg.demo import run as run_demo

    run_demo()


@app.command()
def bench(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="[SUITE]",
            help="lubm, read, seas, taxi, snb, dynamic, algebra, offers, static, stock, smartgrid, memory, process, "
            "spark or service.",
        ),
    ] = "lubm",
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Use a file instead of generated data (.nt, .csv, .gz)."),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write the figures there, as JSON [bench-SUITE.json].")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use less data, in a fraction of the time.")] = False,
    spark: Annotated[bool, typer.Option(help="Measure on Spark, too.")] = True,
    plots: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Draw charts there, as SVG: of stock and smartgrid."),
    ] = None,
    rivals: Annotated[
        bool,
        typer.Option("--rivals", help="Download (Maven) and run other engines, too: stock has Esper (GPL)."),
    ] = False,
) -> None:
    """Run benchmarks on this machine; print a table and write JSON."""
    if data is not None and not data.is_file():
        raise UsageError("no such file", source=str(data))
    if plots is not None and suite not in ("stock", "smartgrid"):
        raise UsageError(f"--plots is for stock and smartgrid: {suite} has no charts")
    figures = json or Path(f"bench-{suite}.json")
    if data is not None and figures.exists() and figures.samefile(data):
        raise UsageError("--json would overwrite --data: name another file", source=str(figures))
    from rich.console import Console

    from thalweg import bench as benchmarks

    report = benchmarks.run(suite, data=data, quick=quick, spark=spark, rivals=rivals)
    Console().print(report.table())
    report.write(figures)
    if plots is not None:
        benchmarks.write_charts(report.charts, plots)
