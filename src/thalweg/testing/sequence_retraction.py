"""Retracted events by brute force: which events are left at an instant, and the matches over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from thalweg.testing.sequences import Event, SequenceCase, evaluate

Row = tuple[str | None, ...]


@dataclass(frozen=True)
class Change:
    """An event that comes, or a delete that names one by its stream and its triples."""

    event: Event
    deletes: bool = False


def answer_at(case: SequenceCase, arrived: Sequence[Change], until: int) -> Counter[Row]:
    """The matches that are known at an instant, over the events that no delete up to it has taken back."""
    rows = evaluate(case, remaining(case, arrived, until))
    return Counter(row for at, row in rows if at <= until)


def remaining(case: SequenceCase, arrived: Sequence[Change], until: int) -> list[Event]:
    """The events up to an instant that no delete has taken back, in the order of arrival.

    A delete names the latest event before it, and not more than the window before it, that is on its stream, has the
    same triples, and has not been taken back; of several at one time, the one that arrived last.
    """
    gone: set[int] = set()
    deletes = [one.event for one in arrived if one.deletes and one.event.time <= until]
    for delete in sorted(deletes, key=lambda event: event.time):
        named = [
            (one.event.time, place)
            for place, one in enumerate(arrived)
            if not one.deletes
            and place not in gone
            and one.event.stream == delete.stream
            and set(one.event.triples) == set(delete.triples)
            and delete.time - case.within <= one.event.time < delete.time
        ]
        if named:
            gone.add(max(named)[1])
    return [
        one.event
        for place, one in enumerate(arrived)
        if not one.deletes and place not in gone and one.event.time <= until
    ]
