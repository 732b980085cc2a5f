"""Replay: events at the pace of their times, files that are read several times."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.io.files import read_events
from thalweg.io.replay import Pace, sliced
from thalweg.options import OptionError, RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import NO_TIME
from thalweg.rdf.events import EventBatch, Rows
from thalweg.rdf.prune import Prune

TIME = "<http://www.w3.org/ns/prov#generatedAtTime>"


def batch_of(times: list[int | None], rows: list[int]) -> EventBatch:
    """A batch of events with these times (None: refused), and so many rows each."""
    stamps = np.array([NO_TIME if time is None else time for time in times], np.int64)
    event = np.repeat(np.arange(len(times)), rows)
    ids = np.arange(1, len(event) + 1)
    columns = Rows.inserts(stamps[event], event + 7, ids, ids, ids, ids)
    return EventBatch("s", columns, int(stamps.max(initial=NO_TIME)), (), stamps, 7)


@given(
    st.lists(st.tuples(st.none() | st.integers(0, 60), st.integers(0, 3)), min_size=1, max_size=30),
    st.integers(1, 40),
)
def test_slices_hold_the_same_events_in_the_same_order_and_are_narrow(
    events: list[tuple[int | None, int]], width: int
) -> None:
    times = [time for time, _ in events]
    whole = batch_of(times, [0 if time is None else rows for time, rows in events])
    parts = list(sliced(iter([whole]), width))
    assert np.concatenate([part.times for part in parts]).tolist() == whole.times.tolist()
    assert np.concatenate([part.rows.s for part in parts]).tolist() == whole.rows.s.tolist()
    reached = NO_TIME
    for part in parts:
        assert set(part.rows.event.tolist()) <= set(part.numbers.tolist())
        # The largest time so far, after each event: it moves by less than the width within a slice.
        marks = np.maximum.accumulate(np.maximum(part.times, reached))
        marks = marks[marks != NO_TIME]
        assert not len(marks) or marks[-1] - marks[0] < width
        reached = max(reached, int(part.times.max(initial=NO_TIME)))
        assert part.clock == reached
    assert parts[-1].clock == whole.clock


def test_an_event_is_due_when_its_share_of_the_time_has_passed() -> None:
    now = [100.0]
    pace = Pace(10.0, clock=lambda: now[0])
    assert pace.wait_for(batch_of([5_000_000], [1])) == 0
    assert pace.wait_for(batch_of([25_000_000], [1])) == pytest.approx(2.0)
    now[0] = 102.5
    assert pace.wait_for(batch_of([25_000_000], [1])) == pytest.approx(-0.5)
    assert pace.wait_for(batch_of([None], [0])) == 0


def times_of(path: Path, **options: object) -> list[int]:
    batches = read_events([path], "s", Arena(), Prune.everything(), RunOptions(**options))  # type: ignore[arg-type]
    return [time for batch in batches for time in batch.times.tolist()]


def test_a_file_of_triples_that_is_read_again_goes_on_in_time(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_text("<a:s> <a:p> <a:o> .\n" * 3)
    assert times_of(path, loop=2) == [0, 1000, 2000, 3000, 4000, 5000]
    assert times_of(path, loop=2, per_event=2) == [0, 1000, 2000, 3000]


def test_graphs_that_are_read_again_have_later_times(tmp_path: Path) -> None:
    path = tmp_path / "a.nq"
    path.write_text("".join(f'<a:g{n}> {TIME} "{n}" .\n<a:s> <a:p> _:b <a:g{n}> .\n' for n in (5_000, 7_000)))
    assert times_of(path, loop=3) == [t * 1000 for t in (5_000, 7_000, 7_001, 9_001, 9_002, 11_002)]


def test_blank_nodes_of_each_lap_are_other_nodes(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_text("_:x <a:p> <a:o> .\n")
    batches = read_events([path], "s", Arena(), Prune.everything(), RunOptions(loop=3))
    assert len({s for batch in batches for s in batch.rows.s.tolist()}) == 3


@pytest.mark.parametrize(
    "wrong", [{"speedup": 0.0}, {"speedup": float("nan")}, {"loop": -1}, {"arrival": True, "rate": 5}]
)
def test_options_of_replay_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        RunOptions(**wrong)  # type: ignore[arg-type]
