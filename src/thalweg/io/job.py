"""A run over files, as a command requests it: what is read, how, and where everything goes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from thalweg.algebra.query import Query
from thalweg.errors import UsageError
from thalweg.instants import duration
from thalweg.io.inputs import contents_of, files_of
from thalweg.io.outputs import check_output
from thalweg.operators.derived import output_of
from thalweg.rdf.ntriples import GENERATED_AT


@dataclass(frozen=True)
class InputOptions:
    """The options by which bytes become events."""

    per_event: int = 1
    rate: int | None = None
    blank_nodes: Literal["event", "stable"] = "event"
    time_predicate: str | None = None

    def __post_init__(self) -> None:
        if self.time_predicate is not None and not self.time_predicate.strip("<>").strip():
            raise UsageError("--time-predicate must be an IRI")

    @property
    def time_predicate_term(self) -> bytes:
        """The predicate of times, as it is written in data."""
        iri = self.time_predicate
        return GENERATED_AT if iri is None else f"<{iri.strip('<>')}>".encode()


@dataclass(frozen=True)
class Outputs:
    """Where results, malformed input and late events go; None is the standard output, or a count only."""

    results: Path | None = None
    quarantine: Path | None = None
    late: Path | None = None


@dataclass(frozen=True)
class Job:
    """A query and the files that its streams are read from."""

    query: Query
    inputs: Mapping[str, str]
    reading: InputOptions = InputOptions()
    outputs: Outputs = Outputs()
    lateness: int = 0
    on_error: str = "quarantine"
    drain: bool = False
    unread: tuple[str, ...] = ()
    derive: tuple[Query, ...] = ()
    """CONSTRUCT queries whose output streams the query reads."""
    own: frozenset[str] = frozenset()
    """Real paths that the run itself uses: its query, its outputs, its checkpoint."""

    @classmethod
    def of(
        cls,
        query: Query,
        inputs: Mapping[str, str],
        reading: InputOptions,
        outputs: Outputs,
        *,
        lateness: str,
        on_error: str,
        drain: bool,
        derive: Sequence[Query] = (),
        own: Iterable[str | Path] = (),
    ) -> Job:
        """A job, after checks that name the option which is wrong."""
        needed, derived = _streams([*derive, query])
        for stream in needed:
            if stream not in inputs:
                given = ", ".join(f"<{name}>" for name in inputs)
                raise UsageError(f"the query reads <{stream}>, and no --stream gives it: given are {given}")
        for stream in derived:
            if stream in inputs:
                raise UsageError(f"--stream gives <{stream}>, which is the output of a --derive query")
        try:
            microseconds = duration(lateness)
        except ValueError as error:
            raise UsageError(f"--lateness: {error}") from None
        check_output(query, outputs.results)
        read = {stream: path for stream, path in inputs.items() if stream in needed}
        unread = tuple(stream for stream in inputs if stream not in read)
        used = frozenset(os.path.realpath(path) for path in own)
        return cls(query, read, reading, outputs, microseconds, on_error, drain, unread, tuple(derive), used)

    @property
    def queries(self) -> tuple[Query, ...]:
        """All queries, in the order in which they are registered."""
        return (*self.derive, self.query)

    def files(self) -> dict[str, list[str]]:
        """The files of each stream, in the order in which they are read."""
        return {stream: files_of(path) for stream, path in self.inputs.items()}

    def files_of(self, stream: str) -> list[str]:
        """The files of one stream."""
        return files_of(self.inputs[stream])

    def skipped(self) -> list[str]:
        """Files in the folders that are read which are left out for their suffix."""
        return [
            file
            for path in self.inputs.values()
            if os.path.isdir(path)
            for file in contents_of(path).skipped
            if not self._uses(file)
        ]

    def _uses(self, file: str) -> bool:
        path = os.path.realpath(file)
        return any(path == own or path.startswith(own + os.sep) for own in self.own)


def _streams(queries: Sequence[Query]) -> tuple[list[str], list[str]]:
    """The streams that have to come from outside, and those that queries before the last one make."""
    derived = [made for made in map(output_of, queries[:-1]) if made is not None]
    if len(derived) < len(queries) - 1:
        raise UsageError("a --derive query is REGISTER ISTREAM <stream> AS CONSTRUCT ...")
    read = dict.fromkeys(stream for query in queries for stream in query.streams)
    return [stream for stream in read if stream not in derived], derived
