"""The example of a Spark Declarative Pipeline runs as its page says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.soak]
EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline"
ALARMING = {"feeder/0": {0, 2, 1}, "feeder/1": {5, 3, 4}, "feeder/2": {7, 6}}


def test_a_continuous_query_is_a_flow_of_a_declarative_pipeline(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    project = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__"))
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("file:///tmp/thalweg-pipeline", (tmp_path / "storage").as_uri()))
    binaries = Path(sys.executable).parent
    environment = os.environ | {
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["spark-pipelines", "run", "--spec", str(spec)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Run is COMPLETED" in done.stdout + done.stderr
    alarms = pq.read_table(tmp_path / "spark-warehouse" / "alarms").to_pylist()
    began = {(row["feeder"], row["meter"]) for row in alarms if row["op"] == "+"}
    base = "http://example.org/"
    assert began == {
        (base + feeder, f"{base}meter/{meter}") for feeder, meters in ALARMING.items() for meter in meters
    }
    counts = pq.read_table(tmp_path / "spark-warehouse" / "feeders").to_pylist()
    assert {row["feeder"]: row["count"] for row in counts} == {
        base + feeder: len(meters) for feeder, meters in ALARMING.items()
    }
