"""Progress of the batches of a query, as Spark reports it: for progress lines, logs and dashboards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

COUNTED = "thalweg"
"""The name of the observed metrics in a query's progress."""
COUNTED_SECOND = "thalweg second stage"
"""The name of those of the second stage, which has the results then."""


@dataclass(frozen=True)
class Step:
    """What one batch of one query did, and what the query holds after it."""

    query: str
    """The name of the query, or its id."""
    run: str
    """An id that is new at every start of the query."""
    batch: int
    at: str
    seconds: float
    bytes: int
    """Of text, read."""
    triples: int
    """Read; those that no pattern of the query fits are `pruned`."""
    pruned: int
    sent: int
    """Triples to all shards; one that several shards need is counted for each of them."""
    sent_most: int
    """To the shard that got most."""
    events: int
    results: int
    late: int
    """Events that came too late."""
    quarantined: int
    untimed: int
    """Statements of the default graph without a time; they were left out."""
    left_out: int
    """Events that were aborted, or of other streams than that of their file or payload."""
    blanks: int
    """Blank nodes in the triples that were kept."""
    matched: int
    """The patterns that some triple has fitted so far: bit k is pattern k, as `thalweg explain` numbers them (those of
    `derive` come first)."""
    begun: int
    """The streams that have had an event so far, as bits in the order of their names."""
    replayed: int
    """Entries of the log that new engines were fed with: 0 but for restarts and failures."""
    shards: int
    held: int
    """Triples that the engines of the shards hold."""
    held_most: int
    """By the shard that holds most."""
    state_rows: int
    state_bytes: int
    """Memory of the state store, as Spark reports it; the engines have their own."""
    state_file_bytes: int

    @property
    def triples_per_second(self) -> float:
        """The rate at which triples were read."""
        return self.triples / self.seconds if self.seconds > 0 else 0.0

    @property
    def skew(self) -> float:
        """The fullest shard's share, as a multiple of a fair one: 1 where all shards hold as much."""
        return self.held_most * self.shards / self.held if self.held else 1.0

    def to_json(self) -> str:
        """One line of JSON."""
        rates = {"triples_per_second": round(self.triples_per_second, 1), "skew": round(self.skew, 3)}
        return json.dumps(asdict(self) | rates, ensure_ascii=False)


def step_of(progress: Any) -> Step | None:
    """The step that a `StreamingQueryProgress` reports; None for a query that is not ours."""
    metrics = progress.observedMetrics or {}
    if COUNTED not in metrics:
        return None
    counts = _counts(metrics[COUNTED])
    second = _counts(metrics.get(COUNTED_SECOND))
    operators = progress.stateOperators
    return Step(
        query=progress.name or str(progress.id),
        run=str(progress.runId),
        batch=progress.batchId,
        at=progress.timestamp,
        seconds=progress.durationMs.get("triggerExecution", progress.batchDuration) / 1000,
        bytes=counts.get("bytes", 0),
        triples=counts.get("statements", 0),
        pruned=counts.get("statements", 0) - counts.get("kept", 0),
        sent=counts.get("sent", 0),
        sent_most=counts.get("sent_most", 0),
        events=counts.get("events", 0),
        results=counts.get("answers", 0) + second.get("answers", 0),
        late=counts.get("late", 0),
        # What the reader refuses is handed to the engine, which counts it with its own.
        quarantined=counts.get("rejected", 0),
        untimed=counts.get("untimed", 0),
        left_out=counts.get("left_out", 0),
        blanks=counts.get("blanks", 0),
        matched=counts.get("matched", 0),
        begun=counts.get("begun", 0),
        replayed=counts.get("replayed", 0) + second.get("replayed", 0),
        shards=counts.get("shards", 0),
        held=counts.get("held", 0),
        held_most=counts.get("held_most", 0),
        state_rows=sum(operator.numRowsTotal for operator in operators),
        state_bytes=sum(operator.memoryUsedBytes for operator in operators),
        state_file_bytes=sum(operator.customMetrics.get("rocksdbSstFileSize", 0) for operator in operators),
    )


def _counts(row: Any) -> Mapping[str, int]:
    """A row of metrics by name. Through Connect it comes as its values and, apart from them, its schema."""
    cells = {} if row is None else row.asDict()
    if cells.keys() == {"values", "schema"}:
        names = [column["name"] for column in cells["schema"]["fields"]]
        cells = dict(zip(names, cells["values"], strict=True))
    return {name: int(value) for name, value in cells.items() if value is not None}


class Listener(StreamingQueryListener):
    """Calls `on_step` with a `Step` after every batch of a Thalweg query, and `on_end` with the id of a run that ended.

    >>> spark.streams.addListener(Listener(lambda step: print(step.to_json())))  # doctest: +SKIP
    """

    def __init__(self, on_step: Callable[[Step], None], on_end: Callable[[str], None] | None = None) -> None:
        self._on_step = on_step
        self._on_end = on_end

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """A query that has done nothing is not reported."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A batch is done."""
        step = step_of(event.progress)
        if step is not None:
            self._on_step(step)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Time in which nothing came is not reported."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """A query was stopped, or failed."""
        if self._on_end is not None:
            self._on_end(str(event.runId))
