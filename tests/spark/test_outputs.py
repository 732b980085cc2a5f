"""Outputs that hold each batch once: a run is cut at every point, and goes on."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from thalweg.answers import Row
from thalweg.errors import UsageError
from thalweg.io.files import pieces
from thalweg.io.job import Job, Outputs
from thalweg.lang import parse
from thalweg.spark import checkpoints, outputs
from thalweg.spark.outputs import Ledger, Sinks

QUERY = "SELECT ?x FROM STREAM <http://ex/s> [RANGE 5] WHERE { ?x <http://ex/p> ?y }"
BATCHES = 4


class Killed(BaseException):
    """What a test has instead of SIGKILL."""


def job(folder: Path, suffix: str = ".jsonl") -> Job:
    made = Outputs(folder / f"out{suffix}", folder / "bad.jsonl", folder / "late.jsonl")
    return Job(parse(QUERY), {"http://ex/s": "a.nt"}, outputs=made)


def rows_of_batch(number: int) -> Iterator[Row]:
    for k in range(3):
        yield Row(1000 * number, "+", {"x": f"<http://ex/{number}-{k}>"}, None)


class Driver:
    """Spark's part: it runs batches in order, notes each when it is done, and runs again what is not noted."""

    def __init__(self, folder: Path, suffix: str = ".jsonl") -> None:
        self.folder, self.job = folder, job(folder, suffix)
        self.checkpoint = folder / "cp"
        self.checkpoint.mkdir(exist_ok=True)
        self.done = -1
        self.begun = False

    def run(self) -> None:
        """A process of its own, to the end or until it is killed."""
        tasks = self.folder / f"tasks-{os.urandom(4).hex()}"
        ledger = Ledger(self.checkpoint, Sinks.paths(self.job))
        append, self.begun = self.begun, True
        sinks = Sinks(self.job, tasks, ledger, append=append)
        for number in range(self.done + 1, BATCHES):
            for kind in ("quarantine", "late"):
                (tasks / kind).mkdir(parents=True, exist_ok=True)
                record = {"source": kind, "line": number}
                (tasks / kind / f"batch-{number:08d}-shard-0.jsonl").write_text(json.dumps(record) + "\n")
            with sinks.batch(number):
                sinks.write(rows_of_batch(number) if number != 2 else iter([]))
            reached("commit")
            self.done = number
            reached("committed")


reached: Callable[[str], None] = lambda what: None  # noqa: E731


def content(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


class Cutter:
    """Kills at the n-th point; a write that is cut leaves a part behind."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        self.seen = 0
        monkeypatch.setattr(
            os, "fsync", lambda number: None
        )  # as a kill does not lose what a power cut would
        monkeypatch.setattr(f"{__name__}.reached", lambda what: self.point())
        for module, name in (
            (outputs, "_sync"),
            (outputs, "replace_file"),
            (os, "truncate"),
            (outputs.Records, "write"),
            (outputs.Records, "close"),
        ):
            monkeypatch.setattr(module, name, self._around(getattr(module, name)))
        monkeypatch.setattr("thalweg.io.writers.write_all", self._write_all)
        monkeypatch.setattr(Path, "replace", self._around(Path.replace))

    def point(self) -> None:
        self.seen += 1
        self.left -= 1
        if self.left == 0:
            raise Killed

    def _around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def cut(*args: Any) -> Any:
            self.point()
            result = real(*args)
            self.point()
            return result

        return cut

    def _write_all(self, out: Any, data: bytes) -> None:
        for part in (data[:7], data[7:]):
            self.point()
            out.write(part)
            # What the process has written is there when it is killed.
            out.flush()
        self.point()


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".jsonl.gz", ".tsv.gz"])
def test_a_run_that_is_cut_at_any_point_has_each_batch_once(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    cutter = Cutter(monkeypatch)
    Driver(whole, suffix).run()
    points = cutter.seen
    assert points > 60
    names = (f"out{suffix}", "bad.jsonl", "late.jsonl")
    expected = {name: content(whole / name) for name in names}
    assert expected["bad.jsonl"].count(b"\n") == BATCHES
    for first in range(1, points + 1):
        folder = tmp_path / f"cut-{first}"
        folder.mkdir()
        driver = Driver(folder, suffix)
        # The next processes are cut as well, each a little later in its life than the one before.
        for cut in (first, 1 + first % 7, 9):
            cutter.left = cut
            try:
                driver.run()
            except Killed:
                continue
        cutter.left = 0
        driver.run()
        assert {name: content(folder / name) for name in names} == expected, f"cut at point {first}"


def begun(folder: Path) -> Driver:
    driver = Driver(folder)
    driver.run()
    driver.done = BATCHES - 2
    return driver


def test_an_output_that_was_changed_is_refused_and_left_alone(tmp_path: Path) -> None:
    driver = begun(tmp_path)
    changed = (tmp_path / "out.jsonl").read_bytes().replace(b"1-0", b"1-9").replace(b"3-0", b"9-0")
    (tmp_path / "out.jsonl").write_bytes(changed[1:] + b"\n")
    with pytest.raises(
        UsageError, match=r"out\.jsonl: the output of the run that goes on had .* another file"
    ):
        driver.run()
    assert (tmp_path / "out.jsonl").read_bytes() == changed[1:] + b"\n"


def test_what_somebody_has_added_to_an_output_is_moved_and_not_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = begun(tmp_path)
    driver.done = BATCHES - 1
    whole = (tmp_path / "out.jsonl").read_bytes()
    with (tmp_path / "out.jsonl").open("ab") as file:
        file.write(b"a remark\n")
    ledger = Ledger(driver.checkpoint, Sinks.paths(driver.job))
    assert ledger.cut(BATCHES)
    assert (tmp_path / "out.jsonl").read_bytes() == whole
    (kept,) = driver.checkpoint.glob("thalweg-cut-*out.jsonl")
    assert kept.read_bytes() == b"a remark\n"
    assert str(kept) in capsys.readouterr().err


def test_an_output_that_is_gone_is_missed(tmp_path: Path) -> None:
    driver = begun(tmp_path)
    (tmp_path / "late.jsonl").unlink()
    with pytest.raises(UsageError, match="put it back, or name another output"):
        driver.run()


def test_another_output_goes_on_where_the_first_was_and_no_row_is_in_both(tmp_path: Path) -> None:
    driver = begun(tmp_path)
    whole = (tmp_path / "out.jsonl").read_bytes()
    first = tmp_path / "out.jsonl"
    (tmp_path / "second").mkdir()
    driver.job = job(tmp_path / "second")
    driver.run()
    assert first.read_bytes() + (tmp_path / "second" / "out.jsonl").read_bytes() == whole
    assert b"3-0" not in first.read_bytes()


def test_a_file_that_the_run_does_not_know_is_not_touched(tmp_path: Path) -> None:
    driver = begun(tmp_path)
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "out.jsonl").write_text("precious\n")
    driver.job = job(tmp_path / "second")
    with pytest.raises(UsageError, match="no output of the run that goes on"):
        driver.run()
    assert (tmp_path / "second" / "out.jsonl").read_text() == "precious\n"


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 9, "batches": {}}'])
def test_a_record_that_cannot_be_read_is_refused(tmp_path: Path, record: bytes) -> None:
    driver = begun(tmp_path)
    (driver.checkpoint / outputs.NAME).write_bytes(record)
    before = (tmp_path / "out.jsonl").read_bytes()
    with pytest.raises(UsageError, match="the record of the outputs"):
        driver.run()
    assert (tmp_path / "out.jsonl").read_bytes() == before


def test_a_batch_that_the_record_does_not_reach_is_refused(tmp_path: Path) -> None:
    driver = begun(tmp_path)
    driver.done = 0
    with pytest.raises(UsageError, match="batch 1 is next"):
        driver.run()


def test_a_checkpoint_of_earlier_days_is_added_to(tmp_path: Path) -> None:
    driver = begun(tmp_path)
    before = (tmp_path / "out.jsonl").read_bytes()
    (driver.checkpoint / outputs.NAME).unlink()
    driver.run()
    assert (tmp_path / "out.jsonl").read_bytes().startswith(before)
    assert (driver.checkpoint / outputs.NAME).exists()


def test_what_is_no_file_is_not_recorded(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, [Path("/dev/null"), tmp_path / "a"])
    assert ledger.outputs == [tmp_path / "a"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "record"
    checkpoints.replace_file(file, b"old")

    def killed(*args: object) -> None:
        raise Killed

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(Killed):
        checkpoints.replace_file(file, b"new")
    assert file.read_bytes() == b"old"


@pytest.mark.parametrize("suffix", [".parquet", ".srj", ".tsv.zst", ".srx.gz"])
def test_every_format_holds_all_batches_of_a_run_without_a_checkpoint(tmp_path: Path, suffix: str) -> None:
    made = job(tmp_path, suffix)
    sinks = Sinks(made, tmp_path / "tasks")
    for number in range(BATCHES):
        with sinks.batch(number):
            sinks.write(rows_of_batch(number))
    sinks.close()
    assert sinks.rows == 3 * BATCHES
    path = tmp_path / f"out{suffix}"
    if suffix == ".parquet":
        terms = pq.read_table(path)["x"].to_pylist()
    elif suffix == ".srj":
        bindings = json.loads(path.read_bytes())["results"]["bindings"]
        terms = [f"<{row['x']['value']}>" for row in bindings]
    else:
        text = b"".join(bytes(data) for _, data in pieces(path)).decode()
        terms = re.findall(r"<http://ex/[^<>]*>", text.replace("<uri>", "<").replace("</uri>", ">"))
    assert terms == [f"<http://ex/{number}-{k}>" for number in range(BATCHES) for k in range(3)]
