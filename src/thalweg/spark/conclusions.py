"""Conclusions from the batches of a run on Spark: what was found, and whether malformed input ends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thalweg.errors import DataError
from thalweg.io.job import Job
from thalweg.io.outcome import Seen, error_of, untimed_statement
from thalweg.io.records import Records
from thalweg.spark.host import BITS


def seen_of(job: Job, sums: Mapping[str, Any], quarantine: Records, late: Records) -> Seen:
    """What a run found out, by the sums of its batches. Without any batch nothing is known, and nothing is missed."""
    streams = sorted(job.inputs)
    patterns = range(sum(len(query.patterns) for query in job.queries))
    if not sums:
        return Seen(quarantine, late, streams, [])
    begun = [stream for k, stream in enumerate(streams) if k >= BITS or sums["begun"] >> k & 1]
    unmatched = [k for k in patterns if k < BITS and not sums["matched"] >> k & 1]
    return Seen(quarantine, late, begun, unmatched, sums["blanks"])


def require_clean(job: Job, sums: Mapping[str, Any], quarantine: Records) -> None:
    """End the run if input was refused or left out, and `--on-error fail` is set."""
    if job.options.on_error != "fail":
        return
    if sums["rejected"]:
        raise error_of(quarantine.first) if quarantine.first else DataError("malformed input")
    if sums["untimed"]:
        raise untimed_statement(job)
