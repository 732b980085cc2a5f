"""The program: the table of commands, and what becomes of errors that reach its end."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from thalweg import __version__
from thalweg.errors import DataError, QueryError, ThalwegError, ThalwegWarning, UsageError

if TYPE_CHECKING:
    from thalweg.algebra.query import Query
    from thalweg.schema.axioms import Schema

USAGE, FAILURE, INTERRUPTED = 2, 1, 130
# typer may bring its own copy of click: the base of its usage errors is found through a name that it exports.
_ClickException: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    name="thalweg",
    help="Continuous graph-pattern queries over RDF streams, in-process and on Spark.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


QueryFile = Annotated[str, typer.Argument(metavar="QUERY.rq", help="A file with the query, or - for stdin.")]


SchemaFile = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", help="A schema (RDFS, some OWL): the query also sees what follows from the data."
    ),
]
Rules = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Rules of the schema, comma-separated, e.g. default,transitive [default]."
    ),
]


StaticFiles = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[IRI=]PATH",
        help="Static data: a file for the default graph, or for a named graph; may be repeated.",
    ),
]


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Continuous graph-pattern queries over RDF streams, in-process and on Spark."""
    if version:
        print(f"thalweg {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def parse_file(path: str, *, default: str | None, graphs: Collection[str] = ()) -> Query:
    """The query in a file; `default` is the stream that it reads if it names none, `graphs` the static graphs."""
    try:
        text = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"the query cannot be read: {error.strerror or error}", source=path) from None
    from thalweg.lang import parse

    return parse(text, source="the input" if path == "-" else path, stream=default, graphs=graphs)


def with_schema(query: Query, schema: Path | None, rules: str | None) -> Query:
    """The query under the schema of a file; what is ignored of it is said."""
    if schema is None and rules is not None:
        raise UsageError("--rules are those of a schema: --schema PATH")
    if schema is None and query.regime is None:
        return query
    from thalweg.arguments import under_schema

    with _warnings_said():
        return under_schema(query, schema, rules)


def read_schema(path: Path, rules: str | None) -> Schema:
    """The schema of a file; what is ignored of it is said."""
    from thalweg.schema.axioms import schema_of

    with _warnings_said():
        return schema_of(path, rules)


@contextmanager
def _warnings_said() -> Iterator[None]:
    """Prints warnings when all of them have come."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ThalwegWarning)
        yield
    for warning in caught:
        print(f"thalweg: {warning.message}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0, 1 for a failed run, 2 for wrong usage or query, 130 for Ctrl-C."""
    sys.exit(_main(arguments))


def _main(arguments: Sequence[str] | None) -> int:
    try:
        code = app(
            args=None if arguments is None else list(arguments), prog_name="thalweg", standalone_mode=False
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except _ClickException as error:
        return _complain(error.format_message().rstrip("."), getattr(error, "exit_code", USAGE))
    except (QueryError, UsageError) as error:
        return _complain(str(error), USAGE)
    except DataError as error:
        from thalweg.io.outcome import explained

        return _complain(explained(error), FAILURE)
    except ThalwegError as error:
        return _complain(str(error), FAILURE)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:
        return reader_has_gone()
    except OSError as error:
        return _complain(f"{error.filename or 'input or output'}: {error.strerror or error}", FAILURE)


def reader_has_gone() -> int:
    """End quietly: whoever read our output has left, as `head` does; what is buffered has nowhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _complain(reason: str, code: int) -> int:
    print(f"thalweg: {reason}", file=sys.stderr)
    return code
