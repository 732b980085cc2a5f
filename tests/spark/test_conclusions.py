"""What a run on Spark concludes at its end: what it left out, what no triple fitted, and its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.fakes import Play, chunks_of, job_of, new_worker
from thalweg.engine import Session
from thalweg.io.files import read_events
from thalweg.plan.coverage import Coverage
from thalweg.spark.host import bits_of

S, T, EX = "http://ex/s", "http://ex/t", "http://ex/"
TIME = "<http://www.w3.org/ns/prov#generatedAtTime>"
STAR = f"SELECT * FROM STREAM <{S}> [RANGE 5] {{ ?x <{EX}p> ?y . ?x <{EX}q> ?z . ?x <{EX}r> <{EX}none> }}"
TRIANGLE = f"SELECT * FROM STREAM <{S}> [RANGE 50] {{ ?x <{EX}p> ?y . ?y <{EX}q> ?z . ?z <{EX}typo> ?x }}"
TWO = (
    f"SELECT * FROM NAMED WINDOW <w> ON <{S}> [RANGE 5] FROM NAMED WINDOW <v> ON <{T}> [RANGE 5] "
    f"{{ WINDOW <w> {{ ?x <{EX}p> ?y }} WINDOW <v> {{ ?y <{EX}q> ?z }} }}"
)


def lines(letters: str) -> str:
    return "".join(f"<{EX}n{k % 7}> <{EX}{p}> <{EX}n{k % 5}> .\n" for k, p in enumerate(letters))


@pytest.mark.parametrize("shards", [1, 2, 4])
@pytest.mark.parametrize(
    ("text", "letters", "unmatched"),
    [
        # The only q is in the first batch, and has long left the window when the engine is made anew.
        (STAR, "q" + "p" * 200 + "r" * 10, [2]),
        (STAR, "p" * 200, [1, 2]),
        (TRIANGLE, "q" + "p" * 200, [2]),
    ],
)
def test_shards_remember_which_patterns_were_fitted(
    tmp_path: Path, text: str, letters: str, unmatched: list[int], shards: int
) -> None:
    (tmp_path / "s.nt").write_text(lines(letters))
    job = job_of(text, shards=shards)
    play = Play(job)
    chunks = chunks_of(job, S, tmp_path / "s.nt", piece_bytes=1500)
    assert len(chunks) > 2
    for chunk in chunks:
        play.bits = {"matched": 0, "begun": 0}  # a run that goes on has only the batches of its own
        play.batch([chunk], retry=True)
        new_worker()
    assert play.bits == {"matched": bits_of({0, 1, 2} - set(unmatched)), "begun": 1}
    session = Session()
    coverage = Coverage([session.register(text).query], [S])
    for batch in read_events([tmp_path / "s.nt"], S, session.arena, session.prune()):
        coverage.observe(S, batch.rows, session.arena)
    assert coverage.unmatched == unmatched


@pytest.mark.parametrize("shards", [1, 3])
def test_shards_count_what_has_no_time_and_blank_nodes_once(tmp_path: Path, shards: int) -> None:
    file = tmp_path / "s.nq"
    file.write_text(f'<{EX}g> {TIME} "1" .\n_:a <{EX}p> _:b <{EX}g> .\n<{EX}x> <{EX}p> <{EX}y> .\n' * 3)
    job = job_of(STAR, shards=shards)
    play = Play(job)
    play.batch(chunks_of(job, S, file, piece_bytes=1 << 20))
    assert (play.counts["untimed"], play.counts["blanks"]) == (3, 6)


@pytest.mark.parametrize("shards", [1, 2])
def test_a_stream_without_an_event_has_not_begun(tmp_path: Path, shards: int) -> None:
    (tmp_path / "s.nt").write_text("no triple at all\n")
    (tmp_path / "t.nt").write_text(lines("qq"))
    job = job_of(TWO, shards=shards)
    play = Play(job)
    for stream, name in ((S, "s.nt"), (T, "t.nt")):
        play.batch(chunks_of(job, stream, tmp_path / name, piece_bytes=1 << 20))
    assert play.bits["begun"] == 0b10
    assert play.bits["matched"] == 0b10


def command(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    """The exit code of a run, and the lines of its error output."""
    done = subprocess.run(
        [sys.executable, "-m", "thalweg.cli", "run", *arguments], cwd=folder, capture_output=True, timeout=300
    )
    return done.returncode, done.stderr.decode().splitlines()


def told(line: str) -> tuple[str, str]:
    """The last line of a run without its seconds and rate."""
    head, _, rest = line.partition(" results in ")
    return head, rest.partition("), ")[2]


@pytest.mark.spark
@pytest.mark.slow
def test_both_runners_conclude_with_the_same_lines(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    good = f'<{EX}g> {TIME} "1" .\n<{EX}x> <{EX}p> _:b <{EX}g> .\n<{EX}x> <{EX}q> <{EX}y> <{EX}g> .\n'
    (folder / "a.nq").write_text(good + f"<{EX}x> <{EX}p> <{EX}y> .\n")
    (folder / "b.nq").write_text("@prefix : <http://ex/> .\n:a :p :b ;\n  :q :c .\n")
    (folder / "notes.txt").write_text("notes\n")
    (tmp_path / "q.rq").write_text(STAR.replace("SELECT *", "SELECT ?x ?typo"))
    given = ["q.rq", "--stream", f"{S}=in", "--stream", f"{T}=in/a.nq", "--shards", "2", "--on", "spark"]
    (code, there), (local_code, here) = command(tmp_path, *given), command(tmp_path, *given[:5])
    assert (code, local_code) == (0, 0), there
    assert there[:-1] == here[:-1]
    assert told(there[-1]) == told(here[-1])
    assert told(here[-1])[1] == (
        "3 quarantined, 0 late, 1 statement without a time, 1 file skipped, 1 stream unread, 1 pattern unmatched"
    )
    assert len(here) == 9, "a hint for each kind, and the summary"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("more", [[], ["--on-error", "fail"]])
def test_both_runners_fail_by_the_same_words(tmp_path: Path, more: list[str]) -> None:
    (tmp_path / "s.nq").write_text(lines("pq"))
    (tmp_path / "q.rq").write_text(STAR)
    given = ["q.rq", "--stream", f"{S}=s.nq", *more]
    (code, there), (local_code, here) = command(tmp_path, *given, "--on", "spark"), command(tmp_path, *given)
    assert (code, local_code) == (1, 1), there
    assert there[:1] == here[:1]
    assert len(there) == len(here)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
def test_a_run_that_goes_on_remembers_what_was_fitted_and_adds_to_its_outputs(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "q.rq").write_text(STAR)
    (folder / "a.nt").write_text(lines("q" + "p" * 50))
    given = ["q.rq", "--stream", f"{S}=in", "--on", "spark", "--checkpoint", "cp", "--out", "o.jsonl"]
    given += ["--progress-json", "steps.jsonl"]
    process = subprocess.Popen(
        [sys.executable, "-m", "thalweg.cli", "run", *given, "--follow"], cwd=tmp_path, stderr=subprocess.PIPE
    )
    try:
        steps = tmp_path / "steps.jsonl"
        for _ in range(1200):
            if process.poll() is not None or (steps.exists() and '"events": 51' in steps.read_text()):
                break
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        process.terminate()
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err.decode()
    assert b"1 pattern unmatched" in err, err.decode()
    (folder / "b.nt").write_text(lines("p" * 20))
    code, said = command(tmp_path, *given)
    assert code == 0, said
    assert said[-1].endswith("1 pattern unmatched"), "the q of the first run still counts"
    batches = [json.loads(line)["batch"] for line in steps.read_text().splitlines()]
    assert batches == sorted(set(batches))
    code, said = command(tmp_path, *given[:-4], "--checkpoint", "another", "--progress-json", "steps.jsonl")
    assert (code, len(said)) == (2, 1)
    assert "--force" in said[0]
