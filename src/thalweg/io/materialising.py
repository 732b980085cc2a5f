"""The closure of files under a schema, as N-Triples or N-Quads: each of their graphs is closed alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import DataError, UsageError
from thalweg.io.converting import source_files, whole_file
from thalweg.io.files import FileEvents
from thalweg.io.inputs import files_of
from thalweg.io.live import STDIN, is_live
from thalweg.io.opening import write_all
from thalweg.io.outcome import count, error_of
from thalweg.io.outputs import output_format
from thalweg.io.records import Records
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.formats import Format
from thalweg.rdf.prune import Prune
from thalweg.schema.axioms import Schema
from thalweg.schema.closing import close_columns
from thalweg.static.reading import available_memory, check_memory, needed_memory

_STREAM = "urn:thalweg:closure"
_ROWS = 1 << 16
_FORMATS = ("nt", "nq")
Ints = NDArray[np.int64]
Line = tuple[str, str, str, str | None]
"""A triple and the name of its graph."""


@dataclass(frozen=True)
class Materialisation:
    """What is closed, and where the closure is written."""

    source: str
    target: Path
    schema: Schema
    options: RunOptions
    out_format: str | None = None
    quarantine: Path | None = None

    @property
    def files(self) -> list[str]:
        """The files of the input: itself, those of a folder, or those that a pattern matches."""
        return [self.source] if self.source == STDIN else files_of(self.source, self.options)

    @property
    def formats(self) -> dict[str, Format]:
        """The format of each file of the input."""
        return {file: self.options.format_for(file) for file in self.files}

    @property
    def has_graphs(self) -> bool:
        """Whether the input has named graphs: files with and without them are not mixed."""
        return any(found.has_graphs for found in self.formats.values())

    def target_format(self) -> str:
        """The format of the closure: that of the name, and for stdout that of the input."""
        if self.out_format is None and str(self.target) == "-":
            return "nq" if self.has_graphs else "nt"
        found = output_format(self.target, self.out_format)
        if found.name not in _FORMATS:
            raise UsageError(
                f"a closure is written as N-Triples or N-Quads, and this is {found.title}: "
                "name a file .nt or .nq (also .gz, .zst, .bz2), or give --out-format nt or nq",
                source=str(self.target),
            )
        return found.name


@dataclass
class Materialised:
    """What was written: distinct triples that were given, in how many graphs, and all with what follows from them."""

    given: int | None = 0
    """None where they were not counted."""
    graphs: int | None = 0
    written: int = 0
    quarantined: int = 0
    seconds: float = 0.0
    first_reject: DataError | None = None

    def lines(self) -> list[str]:
        """Hints, and then a summary."""
        hints = []
        if self.first_reject is not None:
            hints.append(f"malformed input, e.g. {self.first_reject} (--quarantine PATH keeps all of it)")
        given = ""
        if self.given is not None and self.graphs is not None:
            given = f"{count(self.given, 'triple')} in {count(self.graphs, 'graph')}, "
        return [
            *hints,
            f"{given}{self.written:,} with what follows, in {self.seconds:.2f} s, {self.quarantined:,} quarantined",
        ]


def check_materialisation(job: Materialisation) -> None:
    """Refuse what cannot be closed, before anything is opened."""
    if job.source == STDIN and job.options.format is None:
        raise UsageError("the standard input has no suffix: --format names its format")
    if job.source != STDIN and is_live(job.source):
        raise UsageError("files, or the standard input (-), are closed", source=job.source)
    for file, found in job.formats.items():
        if found.has_events or found.has_rows:
            raise UsageError(
                f"{found.title} states {'events' if found.has_events else 'rows'}, and a closure is of graphs: "
                "`thalweg convert` makes a file of triples of it",
                source=file,
            )
    job.target_format()
    if job.source != STDIN:
        needed = sum(needed_memory(Path(file), found) for file, found in job.formats.items())
        check_memory(job.source, needed, available_memory())


def materialise(job: Materialisation) -> Materialised:
    """Write the closure of the input to a file that appears when it is complete."""
    begin, done = time.perf_counter(), Materialised()
    target = job.target_format()
    with (
        closing(Records(job.quarantine)) as quarantine,
        whole_file(job.target) as out,
    ):
        arena, graphs = _read(job, quarantine)
        done.graphs = len(graphs)
        for name, columns in graphs.items():
            given = len(np.unique(columns, axis=1).T)
            done.given = (done.given or 0) + given
            closed = close_columns(job.schema, arena, *columns)
            label = None if name == 0 else arena.text(name)
            done.written += write_lines(out, _lines(arena, label, closed), target)
    note_rejects(done, quarantine, job)
    done.seconds = time.perf_counter() - begin
    return done


def note_rejects(done: Materialised, quarantine: Records, job: Materialisation) -> None:
    """Enter what was malformed."""
    done.quarantined = quarantine.count
    if quarantine.first is not None and job.quarantine is None:
        done.first_reject = error_of(quarantine.first)


def write_lines(out: IO[bytes], lines: Iterable[Sequence[Line]], target: str) -> int:
    """Write triples, which come in parts, as N-Triples or N-Quads; answers how many. N-Triples has no named graph."""
    written = 0
    for part in lines:
        if target == "nt":
            for *_, graph in part:
                if graph is not None:
                    raise DataError(
                        f"the graph {graph} has a name, and N-Triples has none: write the closure to a .nq file"
                    )
        texts = [
            f"{s} {p} {o} .\n" if graph is None else f"{s} {p} {o} {graph} .\n" for s, p, o, graph in part
        ]
        write_all(out, "".join(texts).encode())
        written += len(part)
    return written


def _lines(arena: Arena, graph: str | None, columns: tuple[Ints, Ints, Ints]) -> Iterator[list[Line]]:
    for start in range(0, len(columns[0]), _ROWS):
        s, p, o = (arena.texts(column[start : start + _ROWS]) for column in columns)
        yield [(*triple, graph) for triple in zip(s, p, o, strict=True)]


def _read(job: Materialisation, quarantine: Records) -> tuple[Arena, dict[int, tuple[Ints, Ints, Ints]]]:
    """The triples of each graph, by the id of its name; malformed parts go to the quarantine."""
    arena = Arena()
    parts: dict[int, list[tuple[Ints, Ints, Ints]]] = {}
    with source_files(job.source, job.options) as (paths, live):
        options = replace(job.options, blank_nodes="stable")
        if job.has_graphs:
            options = replace(options, mode="triples", per_event=1)
        for batch in FileEvents(paths, _STREAM, arena, Prune.everything(), options, live=live):
            if batch.rejects and options.on_error == "fail":
                raise batch.rejects[0].error()
            quarantine.write(batch.rejects)
            rows = batch.rows
            for name in np.unique(rows.graph).tolist():
                own = (rows.graph == name) & (rows.s != 0)
                parts.setdefault(name, []).append((rows.s[own], rows.p[own], rows.o[own]))
    graphs: dict[int, tuple[Ints, Ints, Ints]] = {}
    for name, found in parts.items():
        s, p, o = (np.concatenate([part[k] for part in found]) for k in range(3))
        graphs[name] = s, p, o
    return arena, graphs
