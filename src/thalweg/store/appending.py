"""Files of events into a store: what is kept, what was there already, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from thalweg.errors import DataError
from thalweg.io.files import FileEvents
from thalweg.io.inputs import files_of
from thalweg.io.outcome import count, error_of
from thalweg.io.progress import Interrupts
from thalweg.io.records import Records
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import EventBatch
from thalweg.rdf.prune import Prune

_MOST_TERMS = 256 * 1024 * 1024


class Appendable(Protocol):
    """A store that keeps batches: `Store`, or the table of one on Spark."""

    def position(self, writer: str) -> int | None:
        """The number that a writer has come to."""

    def append(
        self,
        batch: EventBatch,
        arena: Arena,
        *,
        writer: str | None = None,
        number: int | None = None,
        rescope: bool = False,
    ) -> bool:
        """Keep the events of a batch."""


@dataclass
class Appended:
    """What was appended."""

    events: int = 0
    rows: int = 0
    deletes: int = 0
    repeated: int = 0
    """Events that the writer had already appended."""
    quarantined: int = 0
    untimed: int = 0
    """Statements that belong to no event."""
    seconds: float = 0.0
    interrupted: bool = False
    first_reject: DataError | None = None

    @property
    def failed(self) -> bool:
        """Whether there was input, and all of it was refused."""
        return bool(self.quarantined) and not self.events and not self.repeated

    def lines(self) -> Iterator[str]:
        """Hints, and then a summary."""
        if self.first_reject is not None:
            yield f"malformed input, e.g. {self.first_reject} (--quarantine PATH keeps all of it)"
        if self.untimed:
            yield f"left out: {count(self.untimed, 'statement')} of the default graph without a time"
        if self.repeated:
            yield f"left out: {count(self.repeated, 'event')} that this writer had appended before"
        state = "interrupted after " if self.interrupted else ""
        yield (
            f"{state}{count(self.events, 'event')}, {count(self.rows, 'triple')} "
            f"({count(self.deletes, 'delete')}) in {self.seconds:.2f} s, {self.quarantined:,} quarantined"
        )


def append_files(
    store: Appendable,
    inputs: Mapping[str, str],
    options: RunOptions,
    *,
    quarantine: Path | None = None,
    writer: str | None = None,
) -> Appended:
    """Append the events of files, stream by stream. Each piece that was read is on disk before the next is read.

    With a writer, what a run of the same name has already appended of a stream is left out: it goes on where that
    one stopped.
    """
    begin = time.perf_counter()
    done = Appended()
    with closing(Records(quarantine)) as refused, Interrupts() as interrupts:
        for stream, path in inputs.items():
            arena = Arena()
            events = FileEvents(files_of(path, options), stream, arena, Prune.everything(), options)
            name = None if writer is None else f"{writer} {stream}"
            for batch in events:
                if batch.rejects and options.on_error == "fail":
                    raise batch.rejects[0].error()
                refused.write(batch.rejects)
                _append(store, batch, arena, name, done, rescope=options.blank_nodes == "event")
                if arena.used_bytes > _MOST_TERMS:
                    arena.compact(events.live_ids())
                if interrupts.wanted:
                    done.interrupted = True
                    break
            done.untimed += events.framer.ignored
            if done.interrupted:
                break
    done.quarantined = refused.count
    if refused.first is not None and quarantine is None:
        done.first_reject = error_of(refused.first)
    done.seconds = time.perf_counter() - begin
    return done


def _append(
    store: Appendable, batch: EventBatch, arena: Arena, writer: str | None, done: Appended, *, rescope: bool
) -> None:
    number = None
    numbers = batch.numbers
    if writer is not None and len(numbers):
        reached = store.position(writer)
        number = int(numbers.max())
        if reached is not None:
            done.repeated += int(np.count_nonzero(numbers <= reached))
            batch = replace(batch, rows=batch.rows[batch.rows.event > reached], event_time=None)
            if number <= reached:
                return
    if not len(batch) and number is None:
        return
    kept = store.append(
        batch, arena, writer=writer if number is not None else None, number=number, rescope=rescope
    )
    if kept:
        done.events += batch.events
        done.rows += len(batch)
        done.deletes += int(np.count_nonzero(batch.rows.op < 0))
