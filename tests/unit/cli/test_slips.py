"""Slips on the command line whose cause is plain are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from thalweg.cli import main

QUERY = "SELECT * FROM STREAM <http://ex/s> [RANGE 10] WHERE { ?x <http://ex/p> ?y }"
DATA = "<http://ex/a> <http://ex/p> <http://ex/b> .\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "q.rq").write_text(QUERY)
    (tmp_path / "d.nt").write_text(DATA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["q.rq", "--stream", "d.nt=http://ex/s"], "write --stream http://ex/s=d.nt"),
        (["d.nt", "--stream", "http://ex/s=d.nt"], "d.nt:1:1: this is RDF data"),
        (["d.nt", "--stream", "http://ex/s=q.rq"], "q.rq: this is a query by its name"),
        (["q.rq", "--stream", "http://ex/s"], "--stream is IRI=PATH"),
        (
            ["q.rq", "--stream", "http://ex/s=d.nt", "--time-predicate", "prov:generatedAtTime"],
            "--time-predicate is a whole IRI, and no query's prefixes hold here: "
            "write http://www.w3.org/ns/prov#generatedAtTime",
        ),
    ],
)
def test_a_slip_on_the_command_line_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["run", *arguments])
    assert exit.value.code == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
