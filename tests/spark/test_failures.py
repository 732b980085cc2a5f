"""Whatever is killed, and whenever: the files of the sink hold each result once.

Drivers, executors and engine processes get SIGKILL at random points. `THALWEG_KILLS` says how many drivers (2),
`THALWEG_SEED` from where the points are drawn.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.spark.fakes import in_process, job_of, told
from tests.spark.victim import BESIDE, SEQUENCE, STAGED, STREAM, TEXT, chain, names
from thalweg.answers import Row

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.skipif(not os.path.isdir("/proc"), reason="processes are found in /proc"),
]
ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("THALWEG_KILLS", "2"))
RANDOM = random.Random(int(os.environ.get("THALWEG_SEED", "0")) or None)
PATIENCE = 500
TEXTS = [
    pytest.param(TEXT, id="one stage"),
    pytest.param(STAGED, id="two stages"),
    pytest.param(SEQUENCE, id="sequence"),
]


def home(folder: Path) -> Path:
    """A home for Spark, because the executors of a local cluster write to a folder in it."""
    made = folder / "spark"
    if not made.exists():
        made.mkdir()
        for entry in Path(pyspark.__file__).parent.iterdir():
            if entry.name != "work":
                (made / entry.name).symlink_to(entry)
    return made


@contextmanager
def victim(folder: Path, master: str, module: str = "tests.spark.victim") -> Iterator[subprocess.Popen[str]]:
    """A driver in a process group of its own; nothing of it is left afterwards."""
    with (folder / "stderr").open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(folder), master],
            cwd=ROOT,
            env=os.environ
            | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "SPARK_HOME": str(home(folder))},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        # Java is a group of its own, and would end a moment after Python; its Python workers end with it.
        java = [
            number for number, command in descendants(process.pid).items() if "java" in command.split("\0")[0]
        ]
        with suppress(ProcessLookupError):  # it may have ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        for number in java:
            kill(number)
        process.wait()


def planned(folder: Path) -> int:
    """The number of the last batch that was begun."""
    names = os.listdir(folder / "checkpoint/offsets") if (folder / "checkpoint/offsets").is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def wait_for(what: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait until something holds, or the process has ended."""
    end = time.monotonic() + PATIENCE
    while not what() and process.poll() is None:
        assert time.monotonic() < end, "nothing happened for too long"
        time.sleep(0.02)


def descendants(process: int) -> dict[int, str]:
    """All processes below one, with their command lines."""
    below: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        below.setdefault(parent, []).append(int(name))
    found: dict[int, str] = {}
    waiting = [process]
    while waiting:
        for child in below.get(waiting.pop(), []):
            try:
                found[child] = Path(f"/proc/{child}/cmdline").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            waiting.append(child)
    return found


def engine_processes() -> list[int]:
    """The engine processes of the Spark of this process: each leads a session of its own."""
    return [
        process
        for process, command in descendants(os.getpid()).items()
        if "thalweg.spark.daemon" in command and os.getsid(process) == process
    ]


def kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def results(spark: Any, folder: Path) -> list[Row]:
    """What the sink holds, by its own account of its files."""
    from thalweg.spark.results import rows_of

    return list(rows_of(spark.read.parquet(str(folder / "out")).toArrow()))


def finished(process: subprocess.Popen[str]) -> list[int]:
    """The replayed entries of each batch of a driver that is left in peace."""
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    (line,) = (line for line in out.splitlines() if line.startswith("replayed"))
    return [int(word) for word in line.split()[1:]]


@pytest.mark.parametrize("text", TEXTS)
def test_a_driver_that_is_killed_again_and_again_gives_each_result_once(
    spark: Any, tmp_path: Path, text: str
) -> None:
    (tmp_path / "query.rq").write_text(text)
    file = tmp_path / "in.nt"
    file.write_bytes(chain(0, 90 * (KILLS + 2)))
    for _ in range(KILLS):
        seen = planned(tmp_path)
        with victim(tmp_path, "local[2]") as process:
            wait_for(lambda seen=seen: planned(tmp_path) > seen, process)  # type: ignore[misc]
            time.sleep(RANDOM.uniform(0, 1.5))
    begun = planned(tmp_path)
    with victim(tmp_path, "local[2]") as process:
        replayed = finished(process)
    assert begun == 0 or replayed[0] > 0, "the first batch after a restart begins with the log"
    assert not any(replayed[1:])
    assert told(results(spark, tmp_path)) == told(in_process(job_of(text), {STREAM: file}))


@pytest.mark.parametrize(
    ("text", "static"),
    [
        pytest.param(TEXT, None, id="one stage"),
        pytest.param(SEQUENCE, None, id="sequence"),
        pytest.param(BESIDE, names(20), id="static data"),
    ],
)
def test_executors_that_are_killed_and_tasks_that_fail_change_nothing(
    spark: Any, tmp_path: Path, text: str, static: bytes | None
) -> None:
    """A local cluster gets static data from Spark, and so does the executor that takes the place of a killed one."""
    (tmp_path / "query.rq").write_text(text)
    if static is not None:
        (tmp_path / "static.nt").write_bytes(static)
    file = tmp_path / "in.nt"
    file.write_bytes(chain(0, 500))
    expected = told(in_process(job_of(text, static=static), {STREAM: file}))
    assert len(expected) > 100
    with victim(tmp_path, "local-cluster[2,1,2048]") as process:
        wait_for(lambda: planned(tmp_path) >= 1, process)
        time.sleep(RANDOM.uniform(0, 1))
        executors = [
            number
            for number, command in descendants(process.pid).items()
            if "CoarseGrainedExecutorBackend" in command
        ]
        assert len(executors) == 2
        kill(RANDOM.choice(executors))
        seen = planned(tmp_path)
        wait_for(lambda: planned(tmp_path) >= seen + 2, process)
        (tmp_path / "break").touch()
        replayed = finished(process)
    assert any(replayed), "another executor begins with the log"
    assert list(tmp_path.glob("broken-*")), "a task failed"
    assert told(results(spark, tmp_path)) == expected


@pytest.mark.parametrize("text", TEXTS)
def test_engine_processes_that_are_killed_are_replaced_by_the_log(
    spark: Any, tmp_path: Path, text: str
) -> None:
    """Before each batch, and while one runs: a task that loses its engine process is tried again."""
    from thalweg.spark import read, run
    from thalweg.spark.results import rows_of

    file = tmp_path / "in.nt"
    file.write_bytes(chain(0, 300))
    rows: list[Row] = []
    killed: list[int] = []

    def strike(number: int) -> None:
        for engine_process in engine_processes():
            killed.append(number)
            kill(engine_process)

    def deliver(batch: Any, number: int) -> None:
        if number % 3 == 1:
            strike(number)
        if number % 3 == 2:
            threading.Timer(RANDOM.uniform(0, 0.3), strike, [-1]).start()
        rows.extend(rows_of(batch.toArrow()))

    events = read(spark, str(file), stream=STREAM, endOfStream="true", maxBytesPerTrigger="2k")
    query = (
        run(events, text, shards=2)
        .writeStream.foreachBatch(deliver)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    replayed = [step.observedMetrics["thalweg"]["replayed"] for step in query.recentProgress]
    assert {number for number, entries in enumerate(replayed) if entries} >= set(killed) - {-1}
    assert len(set(killed)) > 2
    assert told(rows) == told(in_process(job_of(text), {STREAM: file}))


def test_a_set_of_queries_loses_nothing_when_a_driver_and_an_executor_are_killed(
    spark: Any, tmp_path: Path
) -> None:
    from thalweg.spark import QuerySet
    from thalweg.spark.results import rows_of

    file, static = tmp_path / "in.nt", tmp_path / "static.nt"
    file.write_bytes(chain(0, 400))
    static.write_text("<http://ex/n1> <http://ex/q> <http://ex/n2> .\n")
    texts = {"chain": TEXT, "static": TEXT.replace("?y <http://ex/p> ?z", "?y <http://ex/q> ?z")}
    queries = QuerySet(tmp_path / "orders")
    for name, text in texts.items():
        queries.register(name, text)
    with victim(tmp_path, "local[2]", "tests.spark.set_victim") as process:
        wait_for(lambda: planned(tmp_path) >= 1, process)
        time.sleep(RANDOM.uniform(0, 1))
    seen = planned(tmp_path)
    with victim(tmp_path, "local-cluster[2,1,2048]", "tests.spark.set_victim") as process:
        wait_for(lambda: planned(tmp_path) > seen, process)
        executors = [
            number
            for number, command in descendants(process.pid).items()
            if "CoarseGrainedExecutorBackend" in command
        ]
        assert len(executors) == 2
        kill(RANDOM.choice(executors))
        replayed = finished(process)
    assert any(replayed), "another executor begins with the log"
    found = spark.read.parquet(str(tmp_path / "out"))
    assert found.where("op = 'error'").count() == 0
    for name, text in texts.items():
        rows = found.where(f"query = '{name}' and at is not null").drop("query")
        expected = in_process(job_of(text, static=static.read_text()), {STREAM: file})
        assert told(list(rows_of(rows.toArrow()))) == told(expected), name
        assert expected, name
