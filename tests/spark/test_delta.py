"""End to end with Delta tables: events from one, results into another, a failure and a restart in the middle.

This runs in a process of its own, because Delta has to be there when a session starts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import thalweg as tw
from tests.spark.fakes import timed_graph, told
from tests.spark.kafka_broker import UnavailableError, jars_of
from thalweg.answers import Row

pytestmark = [pytest.mark.spark, pytest.mark.soak]
CLIENT = Path(__file__).with_name("delta_client.py")
S = "http://ex/s"
PAIRS = f"SELECT ?y ?z FROM STREAM <{S}> [RANGE 5s] WHERE {{ ?x <http://ex/p> ?y . ?x <http://ex/p> ?z }}"


@pytest.fixture(scope="module")
def jars(spark: Any) -> str:
    """Delta's jars. Its artifacts carry the version of Spark in their names, and fit no other."""
    version = ".".join(spark.version.split(".")[:2])
    try:
        return ",".join(jars_of(spark, f"io.delta:delta-spark_{version}_2.13:latest.release"))
    except UnavailableError as failure:
        pytest.skip(f"Delta: {failure}")


def expected(last: int) -> list[Row]:
    session = tw.Session()
    query = session.register(PAIRS)
    for k in range(last):
        session.push(S, at=k * 1000, graph=f"<http://ex/a> <http://ex/p> <http://ex/b{k}> .")
    return query.poll()


def test_each_result_is_in_the_table_once_though_a_batch_was_given_to_it_twice(
    jars: str, tmp_path: Path
) -> None:
    appends = [[timed_graph(k, k * 1000) for k in range(first, first + 10)] for first in range(0, 40, 10)]
    task = {"stream": S, "query": PAIRS, "runs": [appends[:2], appends[2:]]}
    (tmp_path / "task.json").write_text(json.dumps(task))
    done = subprocess.run(
        [sys.executable, str(CLIENT), str(tmp_path), jars],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    told_by_client = json.loads(done.stdout.splitlines()[-1])
    if "unfit" in told_by_client:
        pytest.skip(f"Delta does not fit this Spark: {told_by_client['unfit']}")
    first, second = told_by_client["batches"]
    assert first == [0, 1]
    assert second == [1, 2, 3], "the batch that was not noted came again"
    rows = [Row(at, op, bindings, None) for at, op, bindings in told_by_client["rows"]]
    assert len(rows) == len({(row.at, row.op, *row.bindings.items()) for row in rows}), "no row twice"
    assert told(rows) == told(expected(40))
    assert len(rows) > 500
