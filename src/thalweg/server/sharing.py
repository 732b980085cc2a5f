"""Which queries may join a plan that began before them, with the content of their streams: their answers are the same.

A query that begins with the content of its streams has, from its registration on, the answer over what its windows hold
of the retained events. A plan of the same query that began earlier, with such a content, too, has the same windows, if
the streams have been retained in the same way since, for as long as the windows reach back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thalweg.algebra.nodes import Group, walk
from thalweg.algebra.query import Query
from thalweg.algebra.windows import Count, Entailed, Range, Unbounded
from thalweg.arguments import span_of

_OF_ORDER = ("SAMPLE", "GROUP_CONCAT")
"""Aggregates whose value depends on the order in which solutions came."""


@dataclass(frozen=True)
class Retention:
    """How a stream is retained: a duration or `forever`, None: not at all; and how often that has changed."""

    keep: str | None
    changes: int

    def reaches(self, span: int | None) -> bool:
        """Whether it holds everything that came in the last `span` microseconds; None: everything at all."""
        if self.keep is None or self.keep == "forever":
            return self.keep is not None
        return span is not None and span_of(self.keep) >= span


def is_joinable(query: Query, retentions: Mapping[str, Retention]) -> bool:
    """Whether an equal query that comes later begins with the answer that this one has then, and goes on as it does.

    Excluded are outputs that depend on more than the answer: reports, single events, sequences, derived streams.
    """
    if (
        query.operator is not None
        or query.output is not None
        or query.sequence is not None
        or query.per_event
    ):
        return False
    for node in walk(query.root):
        if isinstance(node, Group) and any(one.function in _OF_ORDER for _, one in node.aggregates):
            return False
    for source in query.sources:
        window = source.window.window if isinstance(source.window, Entailed) else source.window
        if not source.streams:
            continue
        if isinstance(window, Range) and window.report == Range(window.width, window.step).report:
            span = window.reach
        elif isinstance(window, Unbounded) or (isinstance(window, Count) and window.step == 1):
            span = None
        else:
            return False
        if not all(name in retentions and retentions[name].reaches(span) for name in source.streams):
            return False
    return True
