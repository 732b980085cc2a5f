"""Live sources on Spark: what arrives becomes files, which a run follows to the end of the source."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.cli.commands import EX, FRIENDS, PEOPLE, STREAM
from tests.unit.cli.test_live_sources import LINES, server
from thalweg.rdf.formats import FORMATS
from thalweg.spark.spool import Spool


def wait_for(spool: Spool) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not spool.ended:
        time.sleep(0.01)
    assert spool.ended


def test_lines_that_arrive_are_appended_to_a_file_and_a_second_run_adds_another(tmp_path: Path) -> None:
    for run in range(2):
        with server(lambda connection: connection.sendall(LINES)) as address:
            spool = Spool(address, tmp_path, FORMATS["nt"])
            spool.start()
            wait_for(spool)
            spool.stop()
        assert spool.failure is None
        assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [LINES] * (run + 1)


def test_a_document_is_a_file_when_it_is_complete(tmp_path: Path) -> None:
    with server(lambda connection: connection.sendall(LINES)) as address:
        spool = Spool(address, tmp_path, FORMATS["jsonld"])
        spool.start()
        wait_for(spool)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [LINES]


def test_a_spool_that_cannot_write_fails_the_run(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "000000000.nt").symlink_to("/dev/full")
    with server(lambda connection: connection.sendall(LINES)) as address:
        spool = Spool(address, full, FORMATS["nt"])
        spool._next = lambda: 0  # type: ignore[method-assign] # the disk is full from the first file on
        spool.start()
        wait_for(spool)
    assert isinstance(spool.failure, OSError)


@pytest.mark.spark
@pytest.mark.soak
def test_a_run_on_spark_answers_while_the_standard_input_is_open_and_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "friends.rq").write_text(FRIENDS.replace("[RANGE 10]", "[RANGE 10s]"))
    out = tmp_path / "out.jsonl"
    command = [sys.executable, "-m", "thalweg.cli", "run", "friends.rq", "--stream", f"{STREAM}=-"]
    command += ["--format", "nt", "--on", "spark", "--shards", "2", "--checkpoint", "ck", "--out", str(out)]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(("\n".join(PEOPLE[:2]) + "\n").encode())
    process.stdin.flush()
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and not (out.exists() and out.read_bytes()):
        time.sleep(0.2)
    assert out.read_bytes().count(b"\n") == 1
    _, err = process.communicate(f"nonsense\n{PEOPLE[2]}\n".encode(), timeout=240)
    assert process.returncode == 0, err
    rows = [json.loads(line)["bindings"] for line in out.read_text().splitlines()]
    assert rows == [{"a": f"<{EX}ann>", "c": f"<{EX}cem>"}, {"a": f"<{EX}ben>", "c": f"<{EX}dora>"}]
    assert b"3 events, 3 triples, 2 results" in err
    assert b"1 quarantined" in err
