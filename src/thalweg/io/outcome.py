"""How a run ended: its exit code, what it left out by kind and number, and hints about the causes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

from thalweg.algebra.nodes import Pattern
from thalweg.errors import DataError, UsageError
from thalweg.io.files import pieces
from thalweg.io.job import Job
from thalweg.io.records import Records
from thalweg.io.sniff import holds_data, is_misnamed, likely_cause
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Reject
from thalweg.rdf.compression import compression_of
from thalweg.rdf.formats import Format, SequentialReader, readable_suffixes
from thalweg.rdf.prune import Prune

_SHOWN = 3
"""Names that a hint lists."""


@dataclass
class Outcome:
    """What a run did, for its last lines."""

    events: int = 0
    triples: int = 0
    results: int = 0
    seconds: float = 0.0
    quarantined: int = 0
    late: int = 0
    untimed: int = 0
    """Statements of the default graph without a time."""
    left_out: int = 0
    """Events that were aborted, or of other streams than those that are read from their files."""
    skipped: int = 0
    """Files of a folder that were left out for their suffix."""
    unread: int = 0
    """Streams that were given and that the query does not read."""
    unmatched: int = 0
    """Patterns that no triple fitted."""
    gaps: int = 0
    """Places where matches of a sequence may be missing, because partial matches were dropped."""
    interrupted: bool = False
    failed: bool = False
    """A stream had input, and all of it was refused."""
    unchanged: bool = False
    """The run went on from a checkpoint, and nothing was new."""
    hints: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Hints, and then a summary.

        >>> Outcome(events=2, triples=2000, results=1, seconds=0.5, skipped=1).lines()
        ['2 events, 2,000 triples, 1 result in 0.50 s (4,000 triples/s), 0 quarantined, 0 late, 1 file skipped']
        """
        rate = f" ({self.triples / self.seconds:,.0f} triples/s)" if self.seconds > 0 else ""
        more = {
            "statement without a time": self.untimed,
            "event left out": self.left_out,
            "file skipped": self.skipped,
            "stream unread": self.unread,
            "pattern unmatched": self.unmatched,
            "gap in the matches": self.gaps,
        }
        summary = (
            f"{count(self.events, 'event')}, {count(self.triples, 'triple')}, "
            f"{count(self.results, 'result')} in {self.seconds:.2f} s{rate}, "
            f"{self.quarantined:,} quarantined, {self.late:,} late"
            + "".join(f", {count(number, *what.split(' ', 1))}" for what, number in more.items() if number)
        )
        state = "interrupted after " if self.interrupted else "failed after " if self.failed else ""
        if self.unchanged:
            state = "nothing new since the run before: "
        return [*self.hints, f"{state}{summary}"]


@dataclass
class Seen:
    """What a run found out beside its answers."""

    quarantine: Records
    late: Records
    begun: Collection[str]
    """The streams that had an event, in this run or in one that it goes on from."""
    unmatched: Collection[int]
    """The patterns that no triple fitted, likewise."""
    blank_nodes: int = 0
    """Blank nodes in the triples that some pattern fits."""


def conclude(outcome: Outcome, job: Job, seen: Seen, *, endless: bool = False) -> None:
    """Set how a run ended: whether it failed, what it left out, and why that may be.

    A stream that had input and gave no event is a failure, unless the run was interrupted before it could give one; a
    run without an end fails only if it refused something and had no event at all. N-Quads that are called .nt are a
    failure, too: what states the times of their graphs is read as if it were data.
    """
    outcome.skipped, outcome.unread = len(job.skipped()), len(job.unread)
    missing = [stream for stream in job.inputs if stream not in seen.begun]
    if endless:
        lost = missing if outcome.quarantined + outcome.untimed and not seen.begun else []
    else:
        lost = [] if outcome.interrupted else [stream for stream in missing if _had_input(job, stream)]
        if outcome.quarantined:
            lost += [stream for stream in job.inputs if stream in seen.begun and _misnamed(job, stream)]
    outcome.failed = bool(lost)
    outcome.unmatched = len(_unmatched(job, seen)) if seen.begun and not lost else 0
    outcome.hints = [*_refused(outcome, job, seen, lost), *_left_out(outcome, job, seen)]


def _unmatched(job: Job, seen: Seen) -> list[Pattern]:
    """The patterns that no triple fitted, without those of queries whose answer is always empty."""
    patterns = [(query, pattern) for query in job.queries for pattern in query.patterns]
    asked = (patterns[number] for number in seen.unmatched)
    return [pattern for query, pattern in asked if query.empty is None]


def _had_input(job: Job, stream: str) -> bool:
    return any(map(holds_data, _files(job, stream)))


def _misnamed(job: Job, stream: str) -> bool:
    """Whether all files of a stream are N-Quads that are called N-Triples."""
    files = _files(job, stream)
    return bool(files) and all(is_misnamed(file, job.options.format_for(file)) for file in files)


def _files(job: Job, stream: str) -> list[str]:
    """The files of a stream; none where its folder is empty by now."""
    try:
        return [file for file in job.files_of(stream) if os.path.isfile(file)]
    except UsageError:
        return []


def _refused(outcome: Outcome, job: Job, seen: Seen, lost: Collection[str]) -> Iterator[str]:
    rejects = seen.quarantine.sources
    explained: set[str] = set()
    for stream in lost:
        files = _files(job, stream)
        causes = {
            file: cause
            for file in files
            if (cause := _cause(file, job.options, rejects.get(file), whole=True))
        }
        explained |= causes.keys()
        for file, cause in list(causes.items())[:_SHOWN]:
            yield f"no usable input in <{stream}>: {file}: {cause}"
        if not causes:
            why = "no statement has a graph and a time" if outcome.untimed else "no line could be read"
            yield f"no usable input in <{stream}>: {_list(files)}: {why}"
    if seen.quarantine.first is not None and job.outputs.quarantine is None:
        yield f"malformed input, e.g. {error_of(seen.quarantine.first)} (--quarantine PATH keeps all of it)"
    others = (
        (file, _cause(file, job.options, reject)) for file, reject in rejects.items() if file not in explained
    )
    for file, cause in islice(((file, cause) for file, cause in others if cause), _SHOWN):
        yield f"{file}: {cause}"


def _left_out(outcome: Outcome, job: Job, seen: Seen) -> Iterator[str]:
    if seen.late.first is not None and job.outputs.late is None:
        yield "events came too late: --lateness waits for them, --late PATH keeps them"
    if job.outputs.late is not None and outcome.late > seen.late.count:
        yield f"only {seen.late.count:,} of {outcome.late:,} late events could be written down"
    if outcome.untimed and (not outcome.failed or len(job.inputs) > 1):
        yield (
            f"left out: {count(outcome.untimed, 'statement')} of the default graph without a time "
            "(--on-error fail refuses them, --time-predicate names the predicate of times)"
        )
    if outcome.left_out:
        yield f"left out: {count(outcome.left_out, 'event')}, aborted or of streams that are not read from these files"
    if outcome.gaps:
        yield (
            f"the sequence had more than {job.options.max_partial_matches:,} partial matches, and the oldest were "
            "dropped: matches may be missing up to the times of the rows `gap` (shorten WITHIN, join atoms by a "
            "variable, raise --max-partial-matches, or refuse it with --on-partial-matches fail)"
        )
    if outcome.skipped:
        suffixes = "its suffix" if outcome.skipped == 1 else "their suffixes"
        yield f"skipped for {suffixes}: {_list(job.skipped())} (read are {readable_suffixes()})"
    for stream in job.unread:
        yield f"the query does not read <{stream}>"
    if outcome.unmatched:
        for pattern in _unmatched(job, seen):
            yield f"no triple fits the pattern  {pattern} .  (line {pattern.line}:{pattern.column} of the query)"
    yield from (doubt for query in job.queries for doubt in query.doubts)
    joins = job.options.blank_nodes == "event" and any(
        len(query.patterns) > 1 and not query.per_event for query in job.queries
    )
    if joins and seen.blank_nodes:
        yield (
            "blank nodes were taken as local to their events, so that no two events share one; "
            "if the labels are stable, use --blank-nodes stable"
        )


def _cause(
    file: str,
    options: RunOptions,
    reject: Reject | dict[str, Any] | None = None,
    *,
    whole: bool = False,
) -> str | None:
    """Why a file, or something in it, may have been refused, and what to do."""
    kind = None if reject is None else _reject_of(reject).kind
    packed = compression_of(file)
    if packed and kind in ("truncated", "damaged"):
        lost = "was not written or copied to its end" if kind == "truncated" else "is damaged"
        return f"the {packed.title} file {lost}: make it again ({packed.test} tests it)"
    if kind == "untimed":
        return "a graph needs a time, given by a statement about it, or in it; --time-predicate names the predicate"
    try:
        return likely_cause(file, options.format_for(file), whole=whole)
    except UsageError:  # the source is no file: its name has no suffix
        return None


def _list(names: Sequence[str]) -> str:
    more = f" and {count(len(names) - _SHOWN, 'other')}" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def explained(error: DataError) -> str:
    """An error about a piece of input, with the likely cause if its file is of another kind than its name says."""
    file = error.source
    cause = _cause(file, RunOptions()) if file and os.path.isfile(file) else None
    return f"{error} ({cause})" if cause else str(error)


def error_of(reject: Reject | dict[str, Any]) -> DataError:
    """The error about a piece of input that was refused."""
    return _reject_of(reject).error()


def _reject_of(reject: Reject | dict[str, Any]) -> Reject:
    """A reject, which tasks of Spark leave as JSON."""
    return Reject(**reject) if isinstance(reject, dict) else reject


def untimed_statement(job: Job) -> DataError:
    """The error about the first statement of the default graph without a time, for `--on-error fail`."""
    reason = "the statement is in no graph and states no time"
    for files in job.files().values():
        for file in files:
            format = job.options.format_for(file)
            if not format.has_graphs:
                continue
            if (line := _first_untimed(file, format, job.options.time_term)) is not None:
                return DataError(reason, source=file, line=line or None)
    return DataError(reason)


def _first_untimed(file: str, format: Format, predicate: bytes) -> int | None:
    """The line of a file that holds the first such statement, or None; 0 where it is not in lines."""
    arena, prune = Arena(), Prune.of([])
    reader = format.reader(arena, prune, source=file, time_predicate=predicate, per_event=2)
    source = pieces(file)
    if format.sequential:
        reading = cast(SequentialReader, reader)
        found = any(reading.feed(data, offset=offset).unnamed for offset, data in source)
        return 0 if found or reading.finish().unnamed else None
    before = 0
    for offset, data in source:
        lines = bytes(data).splitlines(keepends=True)
        if not reader.read(data, offset=offset).unnamed:
            before += len(lines)
            continue
        while len(lines) > 1:
            half = len(lines) // 2
            if reader.read(b"".join(lines[:half]), offset=offset).unnamed:
                lines = lines[:half]
            else:
                before, lines, offset = before + half, lines[half:], offset + 1  # no byte order mark here
        return before + 1
    return None


def count(number: int, noun: str, more: str = "") -> str:
    """A number of things, in words.

    >>> count(1, "event"), count(2000, "event"), count(2, "file", "skipped")
    ('1 event', '2,000 events', '2 files skipped')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s") + (f" {more}" if more else "")
