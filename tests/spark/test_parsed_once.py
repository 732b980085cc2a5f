"""The text of a query is parsed once in a run, and the parsed query is passed on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EX = "http://ex/"
QUERY = f"SELECT ?x ?z FROM STREAM <{EX}made> [RANGE 10s] {{ ?x <{EX}q> ?y . ?y <{EX}q> ?z }}"
DERIVE = (
    f"REGISTER ISTREAM <{EX}made> AS CONSTRUCT {{ ?x <{EX}q> ?y }} "
    f"FROM STREAM <{EX}s> [RANGE 10s] {{ ?x <{EX}p> ?y }}"
)
PLAIN = QUERY.replace("made", "s").replace(f"{EX}q", f"{EX}p")
COUNTING = """
import sys
from thalweg import cli, lang
calls, parse = [], lang._parse
def counted(*arguments):
    calls.append(1)
    return parse(*arguments)
lang._parse = counted
code = cli._main(sys.argv[1:])
print(code, len(calls), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("on", "derive"),
    [
        ("local", False),
        ("local", True),
        pytest.param("spark", True, marks=[pytest.mark.spark, pytest.mark.soak]),
    ],
)
def test_a_run_of_the_command_parses_each_text_once(on: str, derive: bool, tmp_path: Path) -> None:
    (tmp_path / "s.nt").write_text("".join(f"<{EX}{k}> <{EX}p> <{EX}{k + 1}> .\n" for k in range(5)))
    (tmp_path / "query.rq").write_text(QUERY if derive else PLAIN)
    (tmp_path / "derive.rq").write_text(DERIVE)
    more = ["--derive", "derive.rq"] if derive else []
    more += ["--on", "spark", "--checkpoint", "checkpoint"] if on == "spark" else []
    arguments = ["run", "query.rq", "--stream", f"{EX}s=s.nt", "--out", "out.jsonl", *more]
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, *arguments],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == f"0 {1 + derive}", done.stderr
    rows = [json.loads(line)["bindings"]["x"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert rows == [f"<{EX}{k}>" for k in range(4)]
