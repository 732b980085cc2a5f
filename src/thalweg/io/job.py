"""A run over files, as a command asks for it: what is read, how, and where everything goes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob, has_magic
from pathlib import Path
from typing import Literal

from thalweg.algebra.nodes import Query
from thalweg.errors import UsageError
from thalweg.instants import duration
from thalweg.io.outputs import check_output
from thalweg.operators.derived import output_of

SUFFIXES = (".nt", ".nq", ".nt.gz", ".nq.gz")


@dataclass(frozen=True)
class Reading:
    """How bytes become events."""

    per_event: int = 1
    rate: int | None = None
    blank_nodes: Literal["event", "stable"] = "event"
    time_predicate: str | None = None

    def __post_init__(self) -> None:
        if self.time_predicate is not None and not self.time_predicate.strip("<>").strip():
            raise UsageError("--time-predicate is an IRI")


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
    reading: Reading = Reading()
    outputs: Outputs = Outputs()
    lateness: int = 0
    on_error: str = "quarantine"
    drain: bool = False
    unread: tuple[str, ...] = ()
    derive: tuple[Query, ...] = ()
    """CONSTRUCT queries whose output streams the query reads."""

    @classmethod
    def of(
        cls,
        query: Query,
        inputs: Mapping[str, str],
        reading: Reading,
        outputs: Outputs,
        *,
        lateness: str,
        on_error: str,
        drain: bool,
        derive: Sequence[Query] = (),
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
        return cls(query, read, reading, outputs, microseconds, on_error, drain, unread, tuple(derive))

    def files(self) -> dict[str, list[str]]:
        """The files of each stream, in the order in which they are read."""
        return {stream: files_of(path) for stream, path in self.inputs.items()}


@dataclass
class Outcome:
    """What a run did, for its last lines."""

    events: int = 0
    triples: int = 0
    results: int = 0
    seconds: float = 0.0
    quarantined: int = 0
    late: int = 0
    interrupted: bool = False
    hints: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """A summary, and then hints.

        >>> Outcome(events=2, triples=2000, results=1, seconds=0.5).lines()
        ['2 events, 2,000 triples, 1 result in 0.50 s (4,000 triples/s), 0 quarantined, 0 late']
        """
        rate = f" ({self.triples / self.seconds:,.0f} triples/s)" if self.seconds > 0 else ""
        summary = (
            f"{count(self.events, 'event')}, {count(self.triples, 'triple')}, "
            f"{count(self.results, 'result')} in {self.seconds:.2f} s{rate}, "
            f"{self.quarantined:,} quarantined, {self.late:,} late"
        )
        return [f"interrupted after {summary}" if self.interrupted else summary, *self.hints]


def _streams(queries: Sequence[Query]) -> tuple[list[str], list[str]]:
    """The streams that have to come from outside, and those that queries before the last one make."""
    derived = [made for made in map(output_of, queries[:-1]) if made is not None]
    if len(derived) < len(queries) - 1:
        raise UsageError("a --derive query is REGISTER ISTREAM <stream> AS CONSTRUCT ...")
    read = dict.fromkeys(stream for query in queries for stream in query.streams)
    return [stream for stream in read if stream not in derived], derived


def inputs_of(options: Iterable[str]) -> dict[str, str]:
    """Streams and paths of `IRI=PATH` options.

    >>> inputs_of(["http://ex/s=/dev/null"])
    {'http://ex/s': '/dev/null'}
    """
    inputs: dict[str, str] = {}
    for option in options:
        stream, path = _split(option)
        if stream in inputs:
            raise UsageError(f"--stream gives <{stream}> twice: put its files into one folder")
        inputs[stream] = path
    return inputs


def files_of(path: str) -> list[str]:
    """The files of a path: itself, what a pattern matches, or the RDF files of a folder, by name."""
    if os.path.isdir(path):
        found = sorted(_walk(path, ""))
        if not found:
            raise UsageError(f"there is no file to read here ({', '.join(SUFFIXES)})", source=path)
        return [os.path.join(path, name) for name in found]
    if has_magic(path) and not os.path.exists(path):
        found = [name for name in sorted(glob(path, recursive=True)) if os.path.isfile(name)]
        if not found:
            raise UsageError("no file has such a name", source=path)
        return found
    return [path]


def _walk(folder: str, prefix: str) -> Iterable[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith((".", "_")):
                continue
            if entry.is_dir():
                yield from _walk(entry.path, f"{prefix}{entry.name}/")
            elif entry.name.lower().endswith(SUFFIXES):
                yield prefix + entry.name


def _split(option: str) -> tuple[str, str]:
    # Both sides may have a "=" inside: the right cut is one that leaves a path which exists.
    cuts = [i for i, c in enumerate(option) if c == "="]
    for cut in reversed(cuts):
        stream, path = option[:cut].removeprefix("<").removesuffix(">"), os.path.expanduser(option[cut + 1 :])
        if stream and path and (os.path.exists(path) or (has_magic(path) and glob(path, recursive=True))):
            return stream, path
    if not cuts or not option[: cuts[-1]] or not option[cuts[-1] + 1 :]:
        raise UsageError(f"--stream is IRI=PATH, not {option!r}")
    raise UsageError("no such file or folder", source=option[cuts[-1] + 1 :])


def count(number: int, noun: str) -> str:
    """A number of things, in words.

    >>> count(1, "event"), count(2000, "event")
    ('1 event', '2,000 events')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
