"""The options of a run: one object for the command line, `Session` and `tw.spark.run`, checked in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, get_args

from thalweg.errors import UsageError
from thalweg.hints import full_iri
from thalweg.instants import duration
from thalweg.rdf.formats import GENERATED_AT, BlankNodes, Format, Mode, Reader, format_named, format_of
from thalweg.rdf.mapping import Mapping as RowMapping

if TYPE_CHECKING:
    from thalweg.rdf.arena import Arena
    from thalweg.rdf.headers import Header
    from thalweg.rdf.prune import Prune

OnError = Literal["quarantine", "fail"]
OnPending = Literal["drop", "fail"]
OnPartialMatches = Literal["shed", "fail"]
Strategy = Literal["incremental", "reevaluate"]

_CHOICES = {
    **{"on_error": OnError, "strategy": Strategy, "blank_nodes": BlankNodes},
    **{"on_pending": OnPending, "on_partial_matches": OnPartialMatches},
}
_LEAST = {
    **{"loop": 0, "threads": 1, "per_event": 1, "shards": 1},
    **{"max_pending": 0, "unpack_ratio": 0, "max_path_pairs": 1, "max_partial_matches": 4},
}
_RUNNERS = frozenset(
    {
        *("on_error", "strategy", "threads", "max_pending", "on_pending", "max_path_pairs"),
        *("max_partial_matches", "on_partial_matches"),
        *("shards", "sizes", "clocked", "speedup"),
    }
)
"""Options that decide how a run proceeds, and not what it answers."""


@dataclass(frozen=True)
class Limits:
    """What one query may keep at most, beyond what its windows hold; more concerns the query, and no other one."""

    path_pairs: int = 10_000_000
    """Pairs of terms that one path with `+` or `*` connects; each takes about 60 bytes."""
    partial_matches: int = 10_000_000
    """Partial matches of one sequence."""
    fails_on_partial_matches: bool = False
    """Whether more of them end the query; else the oldest are dropped."""


LIMITS = Limits()


class OptionError(UsageError):
    """A wrong option: which one, and what is wrong with it."""

    def __init__(self, option: str, detail: str, message: str | None = None) -> None:
        """`message` has the option in it where `detail` does not follow its name."""
        super().__init__(message or f"{option} {detail}")
        self.option, self.detail = option, detail
        self.joint = " " if message is None else ": "

    @property
    def as_flag(self) -> str:
        """The message about an option of the command line."""
        return f"--{self.option.replace('_', '-')}{self.joint}{self.detail}"


@dataclass(frozen=True)
class RunOptions:
    """How bytes become events, how time runs, what malformed input does, and how the work is done.

    >>> RunOptions(lateness="10s").lateness_us
    10000000
    >>> RunOptions(per_event=0)
    Traceback (most recent call last):
    thalweg.options.OptionError: per_event must be at least 1, got 0
    """

    format: str | None = None
    """The format of all files, by its name in the table of formats; None: by their suffixes."""
    mode: Mode | None = None
    """What an event is; None: as the format suggests (N-Triples: triples, N-Quads: graphs)."""
    per_event: int | None = None
    """Statements of an event (triples only); None: one of a format of lines, a whole document of the others."""
    unit_us: int = 1000
    """Microseconds from one event to the next (triples only)."""
    rate: int | float | Fraction | None = None
    """Events a second, instead."""
    mapping: RowMapping | Mapping[str, RowMapping] | None = None
    """What makes RDF of rows (CSV, TSV, JSON rows): for all streams, or by stream."""
    blank_nodes: BlankNodes = "event"
    unpack_ratio: int = 200
    """How many times its size a compressed file may unpack to; 0: no limit. The first 64 MiB are always read."""
    contexts: str | None = None
    """The folder of the contexts that JSON-LD documents refer to."""
    time_predicate: str | None = None
    """The IRI of the predicate that states the time of a graph; None: prov:generatedAtTime."""
    lateness: int | str = 0
    """How late an event may come: milliseconds, or a text with a unit."""
    idle: int | str | None = None
    """After which time a silent stream no longer holds the others (Spark)."""
    speedup: float | None = None
    """How many seconds of event time pass in a second; None: as fast as possible."""
    loop: int = 1
    """How often files are read, 0 for ever; each time, their events follow on those before."""
    arrival: bool = False
    """Whether an event has the time at which it arrives, and time goes on without events."""
    drain: bool = False
    """Whether time runs on after the end until the windows are empty."""
    on_error: OnError = "quarantine"
    strategy: Strategy = "incremental"
    threads: int = 1
    """Threads that match."""
    max_pending: int | None = 1_000_000
    on_pending: OnPending = "drop"
    max_path_pairs: int = LIMITS.path_pairs
    """Pairs of terms that one path with `+` or `*` may connect at once."""
    max_partial_matches: int = LIMITS.partial_matches
    """Partial matches that one sequence may have."""
    on_partial_matches: OnPartialMatches = "shed"
    """Whether more of them drop the oldest, or end the query."""
    shards: int | None = None
    """Over how many tasks the matching is spread at most (Spark)."""
    sizes: Mapping[int, float] | None = None
    """How many triples fit each pattern (Spark)."""
    clocked: bool = False
    """Whether the time of the reading is counted (Spark)."""

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            self._check_choice(name, get_args(choices))
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise OptionError(name, f"must be a whole number, not {value!r:.60}")
            if value is not None and value < least:
                raise OptionError(name, f"must be at least {least}, got {value}")
        if self.rate is not None and not isinstance(self.rate, int | float | Fraction):
            raise OptionError("rate", f"must be a number of events a second, not {self.rate!r:.60}")
        if self.rate is not None and self.rate < 1e-6:
            reason = f"must be at least 0.000001 events a second, got {self.rate}"
            raise OptionError("rate", reason, f"the rate {reason}")
        if self.speedup is not None and not 0 < self.speedup < float("inf"):
            raise OptionError("speedup", f"must be above 0, got {self.speedup}")
        if self.arrival and (self.rate is not None or self.loop != 1 or self.speedup is not None):
            raise OptionError("arrival", "takes the time of arrival: leave out rate, speedup and loop")
        if self.time_predicate is not None and not self.time_predicate.strip("<>").strip():
            raise OptionError("time_predicate", "must be an IRI")
        whole = None if self.time_predicate is None else full_iri(self.time_predicate.strip("<>"))
        if whole is not None:
            raise OptionError(
                "time_predicate", f"is a whole IRI, and no query's prefixes hold here: write {whole}"
            )
        if self.format is not None:
            format = format_named(self.format)
            self.mode_for(format)
            if format.has_rows and self.mapping is None:
                raise OptionError("format", f"{format.name} needs a mapping that makes RDF of the rows")
        for name in ("lateness", "idle"):
            self._check_duration(name)

    def _check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value not in choices:
            named = " or ".join(f'"{choice}"' for choice in choices)
            raise OptionError(name, f"is {named}, not {value!r}")

    def _check_duration(self, name: str) -> None:
        value = getattr(self, name)
        try:
            if value is not None or name == "lateness":
                duration(str(value))
        except ValueError as error:
            raise OptionError(name, str(error), f"{value!r} is not a duration: {error}") from None

    @property
    def limits(self) -> Limits:
        """What one query may keep at most."""
        return Limits(
            path_pairs=self.max_path_pairs,
            partial_matches=self.max_partial_matches,
            fails_on_partial_matches=self.on_partial_matches == "fail",
        )

    @property
    def lateness_us(self) -> int:
        """How late an event may come, in microseconds."""
        return duration(str(self.lateness))

    @property
    def idle_ms(self) -> int | None:
        """After how many milliseconds a silent stream no longer holds the others."""
        return None if self.idle is None else max(1, duration(str(self.idle)) // 1000)

    @property
    def time_term(self) -> bytes:
        """The predicate of times, as it is written in data."""
        iri = self.time_predicate
        return GENERATED_AT if iri is None else f"<{iri.strip('<>')}>".encode()

    def format_for(self, path: Any) -> Format:
        """The format of a file."""
        if self.format is None:
            return format_of(path, rows=self.mapping is not None)
        return format_named(self.format)

    def mapping_for(self, stream: str) -> RowMapping | None:
        """The mapping of a stream's rows, if there is one."""
        mapping = self.mapping
        return mapping.get(stream) if isinstance(mapping, Mapping) else mapping

    def mode_for(self, format: Format) -> Mode:
        """How files of a format are framed."""
        if self.mode == "graphs" and not format.has_graphs:
            raise UsageError(f"{format.title} has no named graphs: frame it as triples")
        if self.mode is not None and (self.mode == "events") != format.has_events:
            states = "states its events itself" if format.has_events else "states no events"
            raise UsageError(f"{format.title} {states}: it is not framed as {self.mode}")
        return self.mode or format.mode

    def per_event_for(self, format: Format) -> int:
        """Statements of an event of a format, 0 where each document is one event."""
        whole = format.documents_are_events and self.mode_for(format) == "triples"
        return self.per_event or int(not whole)

    def reader_for(
        self,
        format: Format,
        arena: Arena,
        prune: Prune,
        *,
        source: str,
        stream: str = "",
        header: Header | None = None,
    ) -> Reader:
        """The reader of a source of a stream into an arena; those of rows share the header of the source."""
        timed = self.mode_for(format) != "triples"
        extras = self.extras_for(format)
        if format.has_rows:
            mapping = format.required(self.mapping_for(stream), source)
            extras |= {"mapping": mapping, "header": header}
            if self.per_event is not None:
                raise OptionError(
                    "per_event", f"is for formats without events: a row of {format.title} is one"
                )
        return format.reader(
            arena,
            prune,
            source=source,
            blank_nodes=self.blank_nodes,
            per_event=self.per_event_for(format),
            time_predicate=self.time_term if timed else b"",
            stream=stream,
            **extras,
        )

    def extras_for(self, format: Format) -> dict[str, Any]:
        """The options that only some formats have, as far as they are given."""
        return {name: value for name in format.extras if (value := getattr(self, name)) is not None}

    @property
    def deciding(self) -> dict[str, Any]:
        """The options that decide the answers, in a normal form."""
        plain = replace(self, lateness=f"{self.lateness_us}us", idle=self.idle_ms)
        names = (field.name for field in fields(self) if field.name not in _RUNNERS)
        return {name: getattr(plain, name) for name in names}
