"""The life of a run of the command line on Spark: killed, gone on with, stopped by signals to its whole group."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spark.victim import chain
from thalweg.cli import _main

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
S = "http://ex/s"
CHAIN = f"SELECT ?x ?z FROM STREAM <{S}> [RANGE 60] WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/p> ?z }}"
BAD = b"<http://ex/broken\n"
PATIENCE = 300


def start(*arguments: str, temporary: Path | None = None) -> subprocess.Popen[str]:
    """A run in a process group of its own."""
    paths = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    if temporary is not None:
        temporary.mkdir()
        paths |= {"TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary)}
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=os.environ | paths,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a process that ends by itself, and its errors."""
    try:
        _, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
        process.wait()
    return process.returncode, err


def rows(path: Path) -> Counter[str]:
    """The sum of a file of results: what comes and goes at one instant is nothing."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    sums: Counter[str] = Counter()
    for line in data.splitlines():
        row = json.loads(line)
        sums[json.dumps([row["at"], row["bindings"]], sort_keys=True)] += 1 if row["op"] == "+" else -1
    return Counter({row: count for row, count in sums.items() if count})


def wait_for(what: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.soak
def test_a_run_that_is_killed_and_gone_on_with_has_each_batch_once_in_every_output(tmp_path: Path) -> None:
    """Killed when rows are written and not noted, then when they are noted and not committed; and then more comes."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.nt").write_bytes(b"".join(chain(k, k + 40) + BAD for k in range(0, 240, 40)))
    (tmp_path / "q.rq").write_text(CHAIN)
    out, bad = tmp_path / "out.jsonl.gz", tmp_path / "bad.jsonl"
    common = ["run", str(tmp_path / "q.rq"), "--stream", f"{S}={folder}"]
    on_spark = [*common, "--on", "spark", "--shards", "2", "--checkpoint", str(tmp_path / "cp")]
    on_spark += ["--out", str(out), "--quarantine", str(bad)]
    for point in ("written", "noted"):
        code, err = ended(start("tests.spark.killed", point, "2", *on_spark))
        assert code == -signal.SIGKILL, err
    code, err = ended(start("tests.spark.killed", "never", "0", *on_spark))
    assert code == 0, err

    def check(parts: int) -> None:
        local = tmp_path / f"local-{parts}.jsonl"
        assert _main([*common, "--out", str(local), "--force"]) == 0
        assert rows(out) == rows(local)
        lines = [json.loads(line)["line"] for line in bad.read_bytes().splitlines()]
        assert sorted(lines) == sorted([41 * k for k in range(1, 7)] + [21] * (parts - 1))

    check(1)
    code, err = ended(start("thalweg.cli", *on_spark))
    assert (code, err.count("\n")) == (0, 1), err
    assert err.startswith("thalweg: nothing new since the run before: 0 events, "), err
    check(1)
    (folder / "b.nt").write_bytes(chain(240, 260) + BAD)
    code, err = ended(start("thalweg.cli", *on_spark))
    assert code == 0, err
    assert err.splitlines()[-1].startswith("thalweg: 20 events, 20 triples"), err
    check(2)
    (tmp_path / "q.rq").write_text(CHAIN.replace("60", "70"))
    begun = time.monotonic()
    code, err = ended(start("thalweg.cli", *on_spark))
    assert (code, err.count("\n")) == (2, 1), err
    assert "of another query" in err
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("number", "more", "code"),
    [
        pytest.param(signal.SIGTERM, [], 130, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, ["--follow"], 0, marks=pytest.mark.soak),
    ],
)
def test_a_signal_to_the_whole_group_ends_a_run_without_traces(
    tmp_path: Path, number: int, more: list[str], code: int
) -> None:
    (tmp_path / "a.nt").write_bytes(chain(0, 40_000))
    (tmp_path / "q.rq").write_text(CHAIN)
    out, temporary = tmp_path / "out.jsonl", tmp_path / "tmp"
    given = ["run", str(tmp_path / "q.rq"), "--stream", f"{S}={tmp_path / 'a.nt'}", "--on", "spark"]
    process = start(
        *("tests.spark.killed", "never", "0", *given, "--out", str(out), *more), temporary=temporary
    )
    try:
        wait_for(lambda: out.exists() and out.stat().st_size > 0, process)
        os.killpg(process.pid, number)
    finally:
        found, err = ended(process)
    assert found == code, err
    assert err.startswith("thalweg: interrupted after "), err
    assert err.count("\n") == 1, err
    assert out.read_bytes().endswith(b"}\n")
    assert rows(out)
    end = time.monotonic() + 30
    while any(temporary.iterdir()) and time.monotonic() < end:
        time.sleep(0.2)  # Java and the engine processes are gone a moment later
    assert [sorted(left.rglob("*")) for left in temporary.iterdir()] == []
