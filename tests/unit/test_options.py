"""The options of a run: checked in one place, with the same words at every door."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.commands import STREAM, Commands
from thalweg.engine import Session
from thalweg.errors import UsageError
from thalweg.io.job import Job
from thalweg.options import RunOptions
from thalweg.rdf.formats import FORMATS

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"on_error": "stop"}, 'on_error is "quarantine" or "fail", not \'stop\''),
    ({"strategy": "fast"}, 'strategy is "incremental" or "reevaluate", not \'fast\''),
    ({"on_pending": "wait"}, 'on_pending is "drop" or "fail", not \'wait\''),
    ({"blank_nodes": "file"}, 'blank_nodes is "event" or "stable", not \'file\''),
    ({"threads": 0}, "threads must be at least 1, got 0"),
    ({"max_pending": -1}, "max_pending must be at least 0, got -1"),
    ({"lateness": "soon"}, "'soon' is not a duration: not a duration: 'soon'"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_a_session_refuses_what_the_options_refuse(wrong: dict[str, Any], message: str) -> None:
    for made in (Session, RunOptions):
        with pytest.raises(UsageError) as refused:
            made(**wrong)
        assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"per_event": 0}, "per_event must be at least 1, got 0"),
        ({"shards": 0}, "shards must be at least 1, got 0"),
        ({"rate": 0}, "the rate must be at least 0.000001 events a second, got 0"),
        ({"time_predicate": "<>"}, "time_predicate must be an IRI"),
        ({"mode": "graphs", "format": "nt"}, "N-Triples has no named graphs: frame it as triples"),
        ({"mode": "graphs", "format": "turtle"}, "Turtle has no named graphs: frame it as triples"),
        ({"format": "csv"}, "format csv needs a mapping that makes RDF of the rows"),
        ({"format": "ttl"}, f"format is one of {', '.join(FORMATS)}, not 'ttl'"),
        ({"idle": "soon"}, "'soon' is not a duration: not a duration: 'soon'"),
    ],
)
def test_wrong_options_are_refused_with_a_sentence(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        RunOptions(**wrong)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--lateness", "soon"), "--lateness: not a duration: 'soon' (write"),
        (("--time-predicate", "<>"), "--time-predicate must be an IRI"),
    ],
)
def test_the_command_names_its_own_options(
    flags: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.chdir(tmp_path)
    thalweg = Commands(tmp_path, capfdbinary)
    done = thalweg("run", "friends.rq", "--stream", f"{STREAM}=people.nt", *flags)
    assert done.code == 2
    assert done.lines[0].startswith(message)


def test_options_that_mean_the_same_decide_the_same_answers() -> None:
    plain = RunOptions(lateness="10s", idle="1m")
    assert plain.deciding == RunOptions(lateness=10_000, idle=60_000, threads=4, shards=2).deciding
    assert plain.deciding != RunOptions(lateness="11s", idle="1m").deciding
    assert plain.deciding != RunOptions(lateness="10s", idle="1m", time_predicate="a:t").deciding


def test_a_session_of_options_has_those_that_concern_it() -> None:
    options = RunOptions(lateness="2s", on_error="fail", max_pending=7, per_event=3, shards=4)
    made = Session.of(options).options
    assert (made.lateness_us, made.on_error, made.max_pending) == (2_000_000, "fail", 7)


def test_a_job_is_parsed_once_and_pickles() -> None:
    text = "SELECT ?x { ?x <a:p> ?y }"
    job = Job.of(text, RunOptions(rate=3), stream=STREAM)
    assert pickle.loads(pickle.dumps(job)) == job
    assert job.query.streams == (STREAM,)
    with pytest.raises(UsageError, match="a stream is derived by REGISTER ISTREAM"):
        Job.of(text, derive=[text], stream=STREAM)
