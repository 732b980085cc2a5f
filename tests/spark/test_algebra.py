"""The whole algebra in the stateful step: random queries in shards, with kills and restarts, against one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from tests.spark.fakes import Play, job_of, new_worker, payloads_of, pushed, told
from thalweg.spark.shard_plan import ShardPlan
from thalweg.testing.algebra import FEATURES, FORMS, algebra_questions, algebra_streams
from thalweg.testing.snapshot import Event
from thalweg.testing.strategies import STREAMS, any_windows

END = ("<http://ex/end>", "<http://ex/unwanted>", "<http://ex/end>")


def ended(events: Sequence[Event], streams: Sequence[str], after: int = 60_007) -> list[Event]:
    """The events, and one more on each stream that lets the windows run empty."""
    last = max(one.time for one in events) + after
    return [*events, *(Event(stream, last, (END,), f"http://ex/end{k}") for k, stream in enumerate(streams))]


def played(data: st.DataObject, job: ShardPlan, events: Sequence[Event]) -> Play:
    """The events in any batches; between them, workers end, batches fail and are run again."""
    play, rest = Play(job), list(events)
    while rest:
        count = data.draw(st.sampled_from([1, 1, 2, 5]))
        batch, rest = rest[:count], rest[count:]
        what = data.draw(st.sampled_from(["go on", "new worker", "new worker", "retry", "fail"]))
        if what == "new worker":
            new_worker()
        fail_after = data.draw(st.integers(0, 2)) if what == "fail" else None
        play.batch(payloads_of(job, batch), retry=what == "retry", fail_after=fail_after)
    return play


def run(data: st.DataObject, events: Sequence[Event], **asked: Any) -> None:
    """One random query: its rows are those of one process at every instant."""
    question = data.draw(algebra_questions(events, **asked))
    shards = data.draw(st.sampled_from([1, 2, 3, 4, 4]))
    job = job_of(question.text(), shards=shards)
    event(f"{play_shards(job)} shards")
    whole = ended(events, sorted(question.streams))
    play = played(data, job, whole)
    expected = pushed(job, whole)
    assert told(play.rows) == told(expected), question.text()


def play_shards(job: ShardPlan) -> int:
    return job.reading.router.shares.shards


@given(data=st.data())
def test_random_algebra_gives_the_same_rows_in_shards(data: st.DataObject) -> None:
    run(data, data.draw(algebra_streams()), features=FEATURES, forms=FORMS, window=any_windows())
