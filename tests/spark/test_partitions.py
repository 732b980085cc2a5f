"""How many partitions the state of a query has, in sessions that were made for other work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import thalweg as tw
from tests.spark.fakes import in_process, job_of, run_frame, told
from tests.spark.victim import STREAM, TEXT, chain
from thalweg.spark import queries, sessions

pytestmark = pytest.mark.spark
PARTITIONS = "spark.sql.shuffle.partitions"


@pytest.fixture
def plain(spark: Any) -> Iterator[Any]:
    """The session with as many partitions as Spark's own."""
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, "200")
    spark.conf.unset(sessions.STATE_PARTITIONS)  # that of the tests before
    yield spark
    spark.conf.set(PARTITIONS, before)
    spark.conf.unset(sessions.STATE_PARTITIONS)


def states(checkpoint: str) -> list[str]:
    return sorted(path.name for path in (Path(checkpoint) / "state" / "0").iterdir() if path.name.isdigit())


def frame(session: Any, path: Path, **options: Any) -> Any:
    events = session.readStream.format("rdf").options(stream=STREAM, endOfStream="true").load(str(path))
    return tw.spark.run(events, TEXT, **options)


@pytest.mark.soak
def test_a_session_with_200_partitions_has_as_many_states_as_shards_and_keeps_its_number(
    plain: Any, tmp_path: Path, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so has a checkpoint from before, though it has the number that it had."""
    file = tmp_path / "a.nt"
    file.write_bytes(chain(0, 90))
    with monkeypatch.context() as before:
        before.setattr(queries, "require_partitions", lambda *_: None)
        plain.conf.set(PARTITIONS, "3")
        old, _ = run_frame(frame(plain, file, shards=2), f"{checkpoint}-old")
    plain.conf.set(PARTITIONS, "200")
    rows, _ = run_frame(frame(plain, file, shards=2), checkpoint)
    assert states(checkpoint) == ["0", "1"]
    assert plain.conf.get(PARTITIONS) == "200"
    with file.open("ab") as more:
        more.write(chain(90, 120))
    rows += run_frame(frame(plain, file, shards=2), checkpoint)[0]
    old += run_frame(frame(plain, file, shards=2), f"{checkpoint}-old")[0]
    assert states(f"{checkpoint}-old") == ["0", "1", "2"]
    whole = told(in_process(job_of(TEXT), {STREAM: file}))
    assert told(rows) == told(old) == whole


def test_shards_are_as_many_as_cores_unless_somebody_has_chosen_partitions(plain: Any) -> None:
    assert sessions.usual_shards(plain) == plain.sparkContext.defaultParallelism
    plain.conf.set(PARTITIONS, "3")
    assert sessions.usual_shards(plain) == 3
    plain.conf.set(PARTITIONS, "64")
    assert sessions.usual_shards(plain) == 16


def test_where_settings_cannot_be_changed_one_sentence_says_which_to_set() -> None:
    class Conf:
        def get(self, name: str, default: Any) -> Any:
            return "200" if name == PARTITIONS else default

        def set(self, name: str, value: str) -> None:
            raise RuntimeError("not here")

    class Session:
        conf = Conf()

    with pytest.warns(
        UserWarning, match=rf"would have 200 partitions, and the query has 4: set {PARTITIONS} to 4"
    ):
        sessions.require_partitions(Session(), 4)  # type: ignore[arg-type]
