"""Which checkpoint a run may go on from: looked at before Spark, and before Java, is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thalweg.cli import _main
from thalweg.errors import UsageError
from thalweg.spark import checkpoints, command, shard_plan

S = "http://ex/s"
CHAIN = f"SELECT ?x ?z FROM STREAM <{S}> [RANGE 60] WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/p> ?z }}"
OTHER = CHAIN.replace("60", "61")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with input and queries, in which Java must not be started."""

    def started(*args: Any, **more: Any) -> None:
        raise AssertionError("Java was started")

    monkeypatch.setattr(command, "require_java", lambda: None)
    monkeypatch.setattr(command, "session", started)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.nt").write_bytes(b"<http://ex/a> <http://ex/p> <http://ex/b> .\n")
    (tmp_path / "q.rq").write_text(CHAIN)
    (tmp_path / "other.rq").write_text(OTHER)
    return tmp_path


def run(folder: Path, *more: str, query: str = "q.rq", stream: str | None = None) -> int:
    given = ["run", str(folder / query), "--stream", stream or f"{S}={folder / 'in'}", "--on", "spark"]
    return _main([*given, "--checkpoint", str(folder / "cp"), "--out", str(folder / "out.jsonl"), *more])


def begin(folder: Path, *more: str) -> None:
    """A run whose first batch was planned."""
    with pytest.raises(AssertionError, match="Java was started"):
        run(folder, *more)
    (folder / "cp" / "offsets").mkdir()
    (folder / "cp" / "offsets" / "0").write_text("v1")


@pytest.mark.parametrize(
    ("first", "then", "reason"),
    [
        (
            [],
            ["--lateness", "10s"],
            "of a run with --lateness 0 ms, and this is one with --lateness 10000 ms",
        ),
        (["--drain"], [], "of a run with --drain, and this is one without --drain"),
        ([], ["--rate", "5"], "of a run without --rate, and this is one with --rate 5"),
        (["--per-event", "2"], ["--per-event", "3"], "of a run with --per-event 2, and this is one with"),
        ([], ["--blank-nodes", "stable"], "--blank-nodes event, and this is one with --blank-nodes stable"),
        ([], ["--time-predicate", "http://ex/t"], "without --time-predicate, and this is one with"),
        (["--shards", "1"], ["--shards", "2"], "with --shards 1, and this is one with --shards 2"),
    ],
)
def test_other_options_are_refused_in_one_sentence_that_names_them(
    folder: Path, capsys: pytest.CaptureFixture[str], first: list[str], then: list[str], reason: str
) -> None:
    begin(folder, *first)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert run(folder, *then) == 2
    err = capsys.readouterr().err
    assert reason in err
    assert err.count("\n") == 1
    assert err.endswith("start with a new checkpoint directory\n")
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_changed_static_data_are_refused_in_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "static.nt"
    file.write_text("<http://ex/b> <http://ex/p> <http://ex/c> .\n")
    begin(folder, "--static", str(file))
    assert json.loads((folder / "cp" / checkpoints.NAME).read_text())["static"]
    with pytest.raises(AssertionError, match="Java was started"):
        run(folder, "--static", str(file))
    file.write_text("<http://ex/b> <http://ex/p> <http://ex/d> .\n")
    for now in (["--static", str(file)], []):
        capsys.readouterr()
        assert run(folder, *now) == 2
        err = capsys.readouterr().err
        assert "of a run with static data of digest" in err
        assert ("and this is one without static data" in err) == (not now)
        assert err.endswith("start with a new checkpoint directory\n")
        assert err.count("\n") == 1


def test_a_static_file_with_an_error_is_refused_before_java_is_started(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "wrong.nt").write_text("<http://ex/b> <http://ex/p> <http://ex/c> .\n<http://ex/b> nothing .\n")
    assert run(folder, "--static", str(folder / "wrong.nt")) == 1
    assert "wrong.nt:2:" in capsys.readouterr().err


def test_another_query_is_refused_in_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin(folder)
    assert run(folder, query="other.rq") == 2
    expected = (
        f"thalweg: {folder / 'cp'}: the checkpoint is of another query: start with a new checkpoint directory"
    )
    assert capsys.readouterr().err.strip() == expected


def test_another_folder_is_refused_for_its_files_may_have_the_same_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(folder)
    (folder / "moved").mkdir()
    (folder / "moved" / "a.nt").touch()
    assert run(folder, stream=f"{S}={folder / 'moved'}") == 2
    assert "that read <http://ex/s> from" in capsys.readouterr().err
    assert run(folder, stream=f"{S}={folder / 'in' / '*.nt'}") == 2, "names of a pattern are whole paths"


def test_files_that_are_named_one_by_one_may_be_others(folder: Path) -> None:
    (folder / "b.nt").touch()
    with pytest.raises(AssertionError):
        run(folder, stream=f"{S}={folder / 'in' / 'a.nt'}")
    (folder / "cp" / "offsets").mkdir()
    (folder / "cp" / "offsets" / "0").touch()
    with pytest.raises(AssertionError, match="Java was started"):
        run(folder, stream=f"{S}={folder / 'b.nt'}")


def test_the_number_of_shards_is_that_of_the_checkpoint(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(folder, "--shards", "3")
    asked: list[int] = []

    def started(app: str, shards: int) -> None:
        asked.append(shards)
        raise UsageError("enough")

    monkeypatch.setattr(command, "session", started)
    assert run(folder) == 2
    assert asked == [3]


def test_streams_are_read_in_the_order_in_which_spark_knows_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "q.rq").write_text(
        "SELECT ?x FROM NAMED WINDOW <w> ON <http://ex/s> [RANGE 8] FROM NAMED WINDOW <v> ON <http://ex/t> "
        "[RANGE 8] WHERE { WINDOW <w> { ?x <http://ex/p> ?y } WINDOW <v> { ?y <http://ex/p> ?z } }"
    )
    (folder / "t").mkdir()
    (folder / "t" / "a.nt").touch()
    given = [f"http://ex/t={folder / 't'}", f"{S}={folder / 'in'}"]
    asked: list[list[str]] = []

    def started(text: str, streams: dict[str, str], *args: Any, **more: Any) -> None:
        asked.append(list(streams))
        raise UsageError("enough")

    class Spark:
        def stop(self) -> None:
            pass

    monkeypatch.setattr(command, "session", lambda *args, **more: Spark())
    monkeypatch.setattr(command, "run_files", started)
    assert run(folder, "--stream", given[1], stream=given[0]) == 2
    (folder / "cp" / "offsets").mkdir()
    (folder / "cp" / "offsets" / "0").touch()
    assert run(folder, "--stream", given[0], stream=given[1]) == 2
    assert asked == [["http://ex/t", S]] * 2


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 2}', '{"format": 1, "x": 1}']
)
def test_a_fingerprint_that_cannot_be_read_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    begin(folder)
    (folder / "cp" / checkpoints.NAME).write_text(broken)
    assert run(folder) == 2
    err = capsys.readouterr().err
    assert "thalweg-run.json: the record of the run" in err
    assert err.count("\n") == 1


def test_a_directory_that_is_no_checkpoint_is_refused_and_left_as_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cp").mkdir()
    (folder / "cp" / "letter.txt").write_text("dear")
    assert run(folder) == 2
    assert "the directory holds other files (letter.txt) and no checkpoint" in capsys.readouterr().err
    assert [path.name for path in (folder / "cp").iterdir()] == ["letter.txt"]
    assert not (folder / "out.jsonl").exists()


def test_a_file_is_no_checkpoint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cp").write_text("dear")
    assert run(folder) == 2
    assert "the checkpoint is a directory, and this is a file" in capsys.readouterr().err


def test_a_run_that_broke_off_before_its_first_batch_binds_nobody(folder: Path) -> None:
    with pytest.raises(AssertionError):
        run(folder)
    with pytest.raises(AssertionError, match="Java was started"):
        run(folder, query="other.rq")
    found = checkpoints.read(folder / "cp")
    assert found is not None
    (folder / "cp" / "offsets").mkdir()
    (folder / "cp" / "offsets" / "0").touch()
    with pytest.raises(AssertionError, match="Java was started"):
        run(folder, query="other.rq")


def test_a_run_that_cannot_write_leaves_no_trace_in_the_checkpoint(folder: Path) -> None:
    (folder / "out.jsonl").mkdir()
    assert run(folder) == 2
    assert not checkpoints.has_begun(folder / "cp")


def test_a_checkpoint_without_a_fingerprint_is_gone_on_from(folder: Path) -> None:
    begin(folder)
    (folder / "cp" / checkpoints.NAME).unlink()
    (folder / "cp" / "commits").mkdir()
    (folder / "cp" / "commits" / "0").touch()
    with pytest.raises(AssertionError, match="Java was started"):
        run(folder)
    assert not (folder / "cp" / checkpoints.NAME).exists(), (
        "only when Spark's state is found to be of this query"
    )


def test_two_runs_do_not_use_one_checkpoint_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with checkpoints.claimed(folder / "cp"):
        assert run(folder) == 2
    assert "another run uses this checkpoint" in capsys.readouterr().err


def test_a_plan_of_another_version_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin(folder)
    file = folder / "cp" / checkpoints.NAME
    values = json.loads(file.read_text())
    file.write_text(json.dumps({**values, "job": "0" * 32}))
    assert run(folder) == 2
    assert "another plan of this query" in capsys.readouterr().err


def test_a_checkpoint_whose_state_has_an_older_format_is_refused_before_spark_starts(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(shard_plan, "STATE_FORMAT", shard_plan.STATE_FORMAT - 1)
        begin(folder)
    assert run(folder) == 2
    error = capsys.readouterr().err
    assert "made by another version of Thalweg: start with a new checkpoint directory" in error


def test_another_query_that_derives_a_stream_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = "REGISTER ISTREAM <http://ex/d> AS CONSTRUCT { ?x <http://ex/q> ?y } FROM NAMED WINDOW <w> ON "
    made += f"<{S}> [RANGE 20] WHERE {{ WINDOW <w> {{ ?x <http://ex/p> ?y }} }}"
    (folder / "made.rq").write_text(made)
    (folder / "q.rq").write_text(CHAIN.replace(S, "http://ex/d"))
    begin(folder, "--derive", str(folder / "made.rq"))
    (folder / "made.rq").write_text(made.replace("20", "21"))
    assert run(folder, "--derive", str(folder / "made.rq")) == 2
    assert "the checkpoint is of another query" in capsys.readouterr().err
