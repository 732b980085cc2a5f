"""Through Spark Connect: a session without a way into the JVM.

This runs in a process of its own, because one process has either a classic session or one of Connect.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.soak]
CLIENT = Path(__file__).with_name("connect_client.py")


def test_files_and_frames_are_queried_through_connect_as_in_one_process(tmp_path: Path) -> None:
    # SPARK_TESTING: the server takes a free port, not the usual one, which another server on the machine may have.
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"}
    environment.pop("SPARK_REMOTE", None)
    done = subprocess.run(
        [sys.executable, str(CLIENT), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=500,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["session"].startswith("pyspark.sql.connect.")
    assert told["files"] == [[f"http://ex/n{k}", f"http://ex/n{k + 2}"] for k in range(19)]
    assert told["static"] == [["N", 1]]
    assert told["frames"] == [["http://ex/a"]]
    assert told["late"] == [["http://ex/e", 1]]
    assert [step["results"] for step in told["steps"]][:1] == [19]
    assert told["refused"] == "the payload is a string or binary, not bigint"
