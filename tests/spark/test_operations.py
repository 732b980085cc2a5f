"""Operations: what a query tells of itself, side outputs as streams, and runs that go on until they are stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.datasource import ReadAllAvailable

from thalweg.cli import _main
from thalweg.errors import UsageError
from thalweg.io.progress import Interrupts
from thalweg.spark import quiet
from thalweg.spark.command import in_words
from thalweg.spark.listener import COUNTED, Step, step_of
from thalweg.spark.queries import Delivery, Steps, watch
from thalweg.spark.results import ARROW
from thalweg.spark.source import RdfStreamReader, SourceOptions

S = "http://ex/s"
CHAIN = f"SELECT ?x ?z FROM STREAM <{S}> [RANGE 60] WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/p> ?z }}"


def chain(first: int, last: int) -> bytes:
    return b"".join(
        b"<http://ex/n%d> <http://ex/p> <http://ex/n%d> .\n" % (k, k + 1) for k in range(first, last)
    )


def graph(second: int, name: str) -> bytes:
    said = f"1970-01-01T00:00:{second:02d}Z"
    return (
        f"<http://ex/{name}> <http://www.w3.org/ns/prov#generatedAtTime> "
        f'"{said}"^^<http://www.w3.org/2001/XMLSchema#dateTime> .\n'
        f"<http://ex/a> <http://ex/p> <http://ex/b> <http://ex/{name}> .\n"
    ).encode()


def progress(**metrics: Any) -> Any:
    state = SimpleNamespace(numRowsTotal=3, memoryUsedBytes=1000, customMetrics={"rocksdbSstFileSize": 70})
    return SimpleNamespace(
        id="i",
        runId="r",
        name=None,
        batchId=4,
        timestamp="2026-01-01T00:00:00.000Z",
        batchDuration=500,
        durationMs={"triggerExecution": 500},
        stateOperators=[state, state],
        observedMetrics=metrics,
    )


COUNTS = Row(
    **{"bytes": 900, "statements": 100, "kept": 40, "sent": 60, "sent_most": 50, "events": 100, "late": 1},
    **{"rejected": 2, "replayed": 0, "held": 40, "held_most": 30, "shards": 2},
)


def test_a_step_has_the_numbers_of_a_batch() -> None:
    step = step_of(progress(thalweg=COUNTS))
    assert step is not None
    assert (step.query, step.batch, step.triples, step.pruned, step.quarantined) == ("i", 4, 100, 60, 2)
    assert (step.triples_per_second, step.skew, step.state_bytes, step.state_file_bytes) == (
        200,
        1.5,
        2000,
        140,
    )
    assert json.loads(step.to_json())["held_most"] == 30
    words = in_words(step, {"statements": 100, "kept": 40, "late": 1, "rejected": 0})
    assert words == (
        "200 triples/s, 60% pruned, 40 triples held, 1.5 times a fair share by one shard, 0.0 MB of state, 1 late"
    )


def test_a_step_that_comes_through_connect_is_the_same() -> None:
    def apart(row: Row) -> Row:
        fields = [{"name": name} for name in row.asDict()]
        return Row(values=list(row), schema={"type": "struct", "fields": fields})

    assert step_of(progress(**{COUNTED: apart(COUNTS)})) == step_of(progress(**{COUNTED: COUNTS}))


def test_batches_of_other_queries_and_empty_ones_are_no_trouble() -> None:
    assert step_of(progress(somebodys=Row(rows=1))) is None
    empty = step_of(progress(thalweg=Row(bytes=None, statements=None, kept=None)))
    assert empty is not None
    assert (empty.triples, empty.skew) == (0, 1.0)


def test_sigterm_is_a_wish_as_ctrl_c_is() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.wanted
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_stream_that_has_ended_stays_so_until_there_is_more_of_it_or_it_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_bytes(chain(0, 3))
    limit = ReadAllAvailable()
    finite = RdfStreamReader(SourceOptions.of({"path": str(tmp_path), "endOfStream": "true"}))
    end = finite.latestOffset(finite.initialOffset(), limit)
    assert finite.latestOffset(end, limit) == end
    reopened = RdfStreamReader(SourceOptions.of({"path": str(tmp_path)})).latestOffset(end, limit)
    assert reopened == {**end, "ended": False}


class Scripted:
    """A query that does, each time it is waited for, the next thing of a script."""

    runId = "r"  # noqa: N815

    def __init__(self, *script: Callable[[], object]) -> None:
        self.script = list(script)
        self.stopped = False

    def awaitTermination(self, seconds: float) -> bool:  # noqa: N802
        if self.script:
            self.script.pop(0)()
        return self.stopped

    def stop(self) -> None:
        self.stopped = True


def test_a_stop_waits_until_emitted_rows_are_committed_and_no_others_are_emitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("thalweg.spark.queries._STOP", 0.1)
    batch: Any = SimpleNamespace(toArrow=ARROW.empty_table)
    told: list[Any] = []
    delivery = Delivery(lambda rows: told.append(list(rows)))
    steps: Steps = SimpleQueue()
    step = step_of(progress(thalweg=COUNTS))
    assert step is not None

    def too_late() -> None:
        assert not query.stopped
        with pytest.raises(UsageError, match="being stopped"):
            delivery(batch, 5)

    query = Scripted(
        lambda: delivery(batch, 4),
        too_late,
        lambda: steps.put(step),
        lambda: [steps.put(run) for run in ("another", "r")],
    )
    sums: list[dict[str, Any]] = []
    watch(query, steps, delivery, sums.append, lambda: bool(told))
    assert query.stopped
    assert (len(told), delivery.delivered) == (1, 4)
    assert [(one["batches"], one["statements"], one["kept"], one["rejected"]) for one in sums] == [
        (5, 100, 40, 2)
    ]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--follow"], "--follow is for --on spark"),
        (["--progress-json", "p"], "--progress-json is for --on spark"),
        (["--on", "spark", "--follow", "--drain"], "with --follow none does"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.rq").write_text(CHAIN)
    assert _main(["run", str(tmp_path / "q.rq"), "--stream", f"{S}={tmp_path}", *options]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.spark
def test_a_listener_gets_each_batch_and_late_and_refused_input_are_streams(
    spark: Any, tmp_path: Path
) -> None:
    from thalweg.spark import Listener, read_late, read_quarantine, run_files

    file = tmp_path / "a.nq"
    file.write_bytes(graph(1, "g1") + graph(9, "g2") + graph(3, "g3") + b"nonsense\n" + graph(10, "g4"))
    text = f"SELECT ?x FROM STREAM <{S}> [RANGE 5s] WHERE {{ ?x <http://ex/p> ?y }}"
    late, quarantine = str(tmp_path / "late"), str(tmp_path / "quarantine")
    frames = {"late": read_late(spark, late), "quarantine": read_quarantine(spark, quarantine)}
    steps: list[Step] = []
    rows: list[Any] = []
    sums: list[dict[str, Any]] = []
    listener = Listener(steps.append)
    spark.streams.addListener(listener)
    try:
        run_files(
            text,
            {S: str(file)},
            rows.extend,
            spark=spark,
            progress=sums.append,
            late=late,
            quarantine=quarantine,
        )
        deadline = time.monotonic() + 20
        while not steps and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        spark.streams.removeListener(listener)
    (step,) = steps
    assert (step.triples, step.late, step.quarantined) == (8, 1, 1)
    assert step.results == sums[-1]["results"] == len(rows)
    assert step.held_most <= step.held <= step.held_most * step.shards
    assert step.sent_most <= step.sent
    assert step.state_bytes > 0
    told = {name: collected(frame, tmp_path / f"cp-{name}", spark) for name, frame in frames.items()}
    ((stream, at, watermark, _, reason),) = told["late"]
    assert (stream, at.second, watermark.second) == (S, 3, 9)
    assert "late" in reason or "watermark" in reason
    ((source, line, _, _, begin),) = told["quarantine"]
    assert (source, line, begin) == (str(file), 7, "nonsense")


def collected(frame: Any, checkpoint: Path, spark: Any) -> list[Any]:
    query = (
        frame.writeStream.format("memory")
        .queryName("told")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return list(spark.table("told").collect())


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "thalweg.cli", *arguments], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=60)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read() if process.stderr else b""
        assert time.monotonic() < deadline
        time.sleep(0.1)


def lines_of(file: Path) -> list[Any]:
    whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
    return [json.loads(line) for line in whole.splitlines()]


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_follows_its_folder_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    folder, out, steps = tmp_path / "in", tmp_path / "out.jsonl", tmp_path / "steps.jsonl"
    folder.mkdir()
    (tmp_path / "q.rq").write_text(CHAIN)
    given = ["run", str(tmp_path / "q.rq"), "--stream", f"{S}={folder}", "--on", "spark", "--out", str(out)]
    given += ["--checkpoint", str(tmp_path / "cp"), "--progress-json", str(steps)]
    given += ["--quarantine", str(tmp_path / "bad.jsonl")]
    with command(*given, "--follow") as process:
        (folder / "a.nt").write_bytes(chain(0, 20) + b"nonsense\n")
        wait_for(lambda: len(lines_of(out)) >= 19, process)
        with (folder / "a.nt").open("ab") as more:
            more.write(chain(20, 40))
        wait_for(lambda: len(lines_of(out)) >= 39, process)
        wait_for(lambda: len(lines_of(tmp_path / "bad.jsonl")) == 1, process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert err.decode().startswith("thalweg: interrupted after 40 events, 40 triples, 39 results"), err
    (folder / "b.nt").write_bytes(chain(40, 60))
    with command(*given) as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    rows = lines_of(out)
    plain = tmp_path / "plain.nt"
    plain.write_bytes(chain(0, 60))
    local = [
        "run",
        str(tmp_path / "q.rq"),
        "--stream",
        f"{S}={plain}",
        "--out",
        str(tmp_path / "local.jsonl"),
    ]
    assert _main(local) == 0
    assert sorted(map(str, rows)) == sorted(map(str, lines_of(tmp_path / "local.jsonl")))
    told = lines_of(steps)
    assert [step["batch"] for step in told] == list(range(len(told)))
    assert sum(step["results"] for step in told) == len(rows)
    assert sum(step["quarantined"] for step in told) == len(lines_of(tmp_path / "bad.jsonl")) == 1


def test_errors_of_java_are_printed_until_its_query_is_being_stopped(
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = "read line; echo $line >&2; read line; echo $line >&2"
    with quiet.without_log_noise():
        process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, bufsize=0)
    assert process.stdin is not None
    process.stdin.write(b"14:40:37 ERROR Disk: full\n")
    printed = ""
    deadline = time.monotonic() + 20
    while "Disk: full" not in printed and time.monotonic() < deadline:
        printed += capfd.readouterr().err
        time.sleep(0.05)
    assert printed == "14:40:37 ERROR Disk: full\n"
    quiet.mute()
    process.stdin.write(b"14:40:38 ERROR ShuffleBlockFetcherIterator: interrupted\n")
    process.wait(timeout=20)
    for thread in threading.enumerate():
        if thread.name == "thalweg-stderr":
            thread.join(timeout=2)
    assert capfd.readouterr().err == ""
    with quiet.without_log_noise():
        assert not quiet._muted.is_set(), "errors of the next session are printed"
