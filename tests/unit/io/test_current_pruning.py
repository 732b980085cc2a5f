"""A reader keeps what the queries of the moment want, not those of the moment when it was opened."""

from __future__ import annotations

from pathlib import Path

import pytest

import thalweg as tw
from thalweg.io.files import read_events

S = "http://ex/s"


@pytest.mark.parametrize("threads", [1, 3])
def test_a_query_that_is_registered_between_two_batches_sees_all_events_from_then_on(
    tmp_path: Path, threads: int
) -> None:
    file = tmp_path / "a.nt"
    file.write_text(
        "".join(f"<http://ex/a{k}> <http://ex/{'pq'[k % 2]}> <http://ex/b> .\n" for k in range(400))
    )
    session = tw.Session()
    first = session.register(f"SELECT ?x FROM STREAM <{S}> WHERE {{ ?x <http://ex/p> ?y }}")
    events = read_events([file], S, session.arena, session.prune, piece=1000, threads=threads)
    session.keep(lambda: [events.live_ids()])
    pushed = 0
    for _ in range(3):
        batch = next(events)
        pushed += batch.events
        session.push_events(batch)
    assert 0 < pushed < 400
    second = session.register(f"SELECT ?x FROM STREAM <{S}> WHERE {{ ?x <http://ex/q> ?y }}")
    for batch in events:
        session.push_events(batch)
    assert len(first.poll()) == 200
    assert len(second.poll()) == sum(k % 2 for k in range(pushed, 400))
