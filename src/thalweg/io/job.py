"""The job of a run: its queries and options, and, for a run over files, what is read and where everything goes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from thalweg.algebra.query import Query
from thalweg.errors import UsageError, warn
from thalweg.io.inputs import contents_of, files_of
from thalweg.io.live import is_live
from thalweg.io.outputs import check_output, open_writer
from thalweg.io.writers import Writer
from thalweg.lang import parse
from thalweg.operators.derived import output_of
from thalweg.options import RunOptions
from thalweg.static.data import StaticData


@dataclass(frozen=True)
class Outputs:
    """Where results, malformed input and late events go; None is the standard output, or a count only."""

    results: Path | None = None
    quarantine: Path | None = None
    late: Path | None = None
    format: str | None = None
    """The format of the results; None: by the suffix of their file."""
    pretty: bool = False
    """Whether the results are a table for people."""


@dataclass(frozen=True)
class Job:
    """Queries and the options by which they are answered; for a run over files also what is read and written."""

    query: Query
    inputs: Mapping[str, str] = field(default_factory=dict)
    """The path of each stream that is read from files."""
    options: RunOptions = field(default_factory=RunOptions)
    outputs: Outputs = Outputs()
    derive: tuple[Query, ...] = ()
    """CONSTRUCT queries whose output streams the query reads."""
    unread: tuple[str, ...] = ()
    """Streams that are given and that no query reads."""
    static: StaticData = field(default_factory=StaticData)
    """The static data that the queries read beside streams."""
    own: frozenset[str] = frozenset()
    """Real paths that the run itself uses: its query, its outputs, its checkpoint."""

    @classmethod
    def of(
        cls,
        query: str | Query,
        options: RunOptions | None = None,
        *,
        derive: Sequence[str | Query] = (),
        stream: str | None = None,
        static: StaticData | None = None,
    ) -> Job:
        """The job of queries whose events come from elsewhere; texts are parsed here, and nowhere after.

        `stream` is what a query reads that names no stream. Files that FROM names are added to the `static` data.
        """
        static = StaticData() if static is None else static
        producers = tuple(_parsed(producer, stream, static) for producer in derive)
        if None in map(output_of, producers):
            raise UsageError("a stream is derived by REGISTER ISTREAM <stream> AS CONSTRUCT ...")
        parsed = _parsed(query, stream, static)
        for one in (*producers, parsed):
            static.require(one.graphs)
        return cls(parsed, options=options or RunOptions(), derive=producers, static=static)

    @classmethod
    def of_files(
        cls,
        query: Query,
        inputs: Mapping[str, str],
        options: RunOptions,
        outputs: Outputs,
        *,
        derive: Sequence[Query] = (),
        own: Iterable[str | Path] = (),
        static: StaticData | None = None,
    ) -> Job:
        """The job of a command, after checks that name the option which is wrong."""
        needed, derived = _streams([*derive, query])
        for stream in needed:
            if stream not in inputs:
                given = ", ".join(f"<{name}>" for name in inputs)
                raise UsageError(f"the query reads <{stream}>, and no --stream gives it: given are {given}")
        for stream in derived:
            if stream in inputs:
                raise UsageError(f"--stream gives <{stream}>, which is the output of a --derive query")
        check_output(query, outputs.results, outputs.format)
        read = {stream: path for stream, path in inputs.items() if stream in needed}
        unread = tuple(stream for stream in inputs if stream not in read)
        used = frozenset(os.path.realpath(path) for path in own)
        static = StaticData() if static is None else static
        for one in (*derive, query):
            static.require(one.graphs)
        return cls(query, read, options, outputs, tuple(derive), unread, static, used)

    @property
    def queries(self) -> tuple[Query, ...]:
        """All queries, in the order in which they are registered."""
        return (*self.derive, self.query)

    @property
    def live(self) -> tuple[str, ...]:
        """The streams that are read from live sources."""
        return tuple(stream for stream, path in self.inputs.items() if is_live(path))

    def open_writer(self, *, append: bool = False) -> Writer:
        """The writer of the results."""
        outputs = self.outputs
        return open_writer(
            outputs.results, self.query, format=outputs.format, pretty=outputs.pretty, append=append
        )

    def files(self) -> dict[str, list[str]]:
        """The files of each stream, in the order in which they are read."""
        return {stream: files_of(path, self.options) for stream, path in self.inputs.items()}

    def files_of(self, stream: str) -> list[str]:
        """The files of one stream."""
        return files_of(self.inputs[stream], self.options)

    def skipped(self) -> list[str]:
        """Files in the folders that are read which are left out for their suffix."""
        return [
            file
            for path in self.inputs.values()
            if os.path.isdir(path)
            for file in contents_of(path, self.options).skipped
            if not self._uses(file)
        ]

    def _uses(self, file: str) -> bool:
        path = os.path.realpath(file)
        return any(path == own or path.startswith(own + os.sep) for own in self.own)


def _parsed(query: str | Query, stream: str | None, static: StaticData) -> Query:
    """A query, parsed if it is a text; whoever parsed another one has seen its doubts."""
    if not isinstance(query, str):
        return query
    parsed = parse(query, stream=stream, graphs=static.names)
    for doubt in parsed.doubts:
        warn(f"query: {doubt}")
    return parsed


def _streams(queries: Sequence[Query]) -> tuple[list[str], list[str]]:
    """The streams that have to come from outside, and those that queries before the last one make."""
    derived = [made for made in map(output_of, queries[:-1]) if made is not None]
    if len(derived) < len(queries) - 1:
        raise UsageError("a --derive query is REGISTER ISTREAM <stream> AS CONSTRUCT ...")
    read = dict.fromkeys(stream for query in queries for stream in query.streams)
    return [stream for stream in read if stream not in derived], derived
