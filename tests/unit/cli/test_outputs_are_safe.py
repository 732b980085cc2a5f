"""No output option ever changes a byte of a file that the user did not give up with --force."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.cli.commands import FRIENDS, PEOPLE, STREAM, Commands
from thalweg.errors import UsageError
from thalweg.io.outputs import check_output
from thalweg.io.safety import check_outputs
from thalweg.lang import parse

OPTIONS = ("--out", "--quarantine", "--late", "--progress-json")
SPELLINGS: dict[str, Callable[[Path], str]] = {
    "relative": lambda path: os.path.relpath(path),
    "absolute": str,
    "detour": lambda path: os.path.join(path.parent, "..", path.parent.name, path.name),
    "symlink": lambda path: _link(path, os.symlink),
    "hard link": lambda path: _link(path, os.link),
}


def _link(path: Path, make: Callable[[Path, str], None]) -> str:
    link = f"link-{make.__name__}{''.join(path.suffixes)}"
    if not os.path.lexists(link):
        make(path, link)
    return link


def on_spark(option: str) -> list[str]:
    return ["--on", "spark"] if option == "--progress-json" else []


@pytest.fixture
def busy(thalweg: Commands) -> Commands:
    """A folder with data in files and folders, and files that are none of our business."""
    data = thalweg.folder / "data"
    (data / "deep").mkdir(parents=True)
    for name, line in zip(("a.nt", "deep/b.nt"), PEOPLE, strict=False):
        (data / name).write_text(line + "\n")
    (thalweg.folder / "empty.nt").touch()
    (thalweg.folder / "thesis.jsonl").write_text("three years of work\n")
    return thalweg


# A file of an input is named as .jsonl by a link only: other suffixes of --out are refused for a SELECT.
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    ("given", "target", "reason"),
    [
        ("people.nt", "people.nt", f"would overwrite an input of <{STREAM}>"),
        ("empty.nt", "empty.nt", f"would overwrite an input of <{STREAM}>"),
        ("data", "data/deep/b.nt", f"would overwrite an input of <{STREAM}>"),
        ("data/**/*.nt", "data/deep/b.nt", f"would overwrite an input of <{STREAM}>"),
        ("data", "friends.rq", "would overwrite the query"),
    ],
)
def test_an_output_that_is_an_input_or_the_query_is_refused_in_any_spelling(
    busy: Commands, option: str, given: str, target: str, reason: str, spelling: str, force: bool
) -> None:
    path = SPELLINGS[spelling](busy.folder / target)
    if option == "--out":
        os.symlink(os.path.abspath(path), "results.jsonl")
        path = "results.jsonl"
    before = busy.files()
    done = busy.run(given, option, path, *on_spark(option), *(["--force"] if force else []))
    assert (done.code, done.out, len(done.lines)) == (2, "", 1)
    assert f"{path}: {option} {reason}" in done.lines[0]
    assert busy.files() == before


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(("one", "other"), [("--quarantine", "--late"), ("--out", "--quarantine")])
def test_two_outputs_to_one_file_are_refused(busy: Commands, one: str, other: str, spelling: str) -> None:
    thesis = busy.folder / "thesis.jsonl"
    thesis.write_text("")
    path = SPELLINGS[spelling](thesis)
    before = busy.files()
    done = busy.run("people.nt", one, "thesis.jsonl", other, path)
    assert done.code == 2
    assert "name the same file" in done.err
    assert busy.files() == before


def test_two_outputs_to_one_file_that_is_not_there_yet_are_refused(busy: Commands) -> None:
    os.symlink("new.jsonl", "dangling.jsonl")
    for other in ("new.jsonl", "data/../new.jsonl", str(busy.folder / "new.jsonl"), "dangling.jsonl"):
        done = busy.run("people.nt", "--out", "new.jsonl", "--late", other)
        assert (done.code, len(done.lines)) == (2, 1)
        assert "--late and --out name the same file" in done.err
    assert not (busy.folder / "new.jsonl").exists()


@pytest.mark.parametrize("option", OPTIONS)
def test_what_is_there_is_refused_unless_it_is_forced(busy: Commands, option: str) -> None:
    before = busy.files()
    done = busy.run("people.nt", option, "thesis.jsonl", *on_spark(option))
    assert (done.code, len(done.lines)) == (2, 1)
    assert f"thesis.jsonl: {option} names a file that exists and is not empty" in done.err
    assert "--force" in done.err
    assert busy.files() == before


def test_force_replaces_and_an_empty_file_needs_none(busy: Commands) -> None:
    (busy.folder / "empty.jsonl").touch()
    printed = busy.run().out
    assert busy.run("people.nt", "--out", "empty.jsonl").code == 0
    assert busy.run("people.nt", "--out", "thesis.jsonl", "--force").code == 0
    assert (busy.folder / "empty.jsonl").read_text() == (busy.folder / "thesis.jsonl").read_text() == printed


def test_a_run_that_goes_on_from_a_checkpoint_adds_to_its_outputs(busy: Commands) -> None:
    outputs = {"--out": Path("thesis.jsonl")}
    check_outputs(outputs, inputs={STREAM: "people.nt"}, queries=["friends.rq"], resumes=True)
    with pytest.raises(UsageError, match="an input"):
        check_outputs(
            {"--late": Path("people.nt")}, inputs={STREAM: "people.nt"}, queries=["friends.rq"], resumes=True
        )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("data", "is a folder: name a file in it"),
        ("none/x", "cannot be written: there is no folder none"),
        ("none/../x", "cannot be written: there is no folder none/.."),
        ("people.nt/x", "cannot be written"),
        ("loop", "cannot be written"),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_another_is_opened(
    busy: Commands, path: str, reason: str
) -> None:
    os.symlink("loop", "loop")
    before = busy.files()
    done = busy.run("people.nt", "--out", "thesis.jsonl", "--force", "--late", path)
    assert (done.code, len(done.lines)) == (2, 1)
    assert f"{path}: --late {reason}" in done.err
    assert busy.files() == before


@pytest.mark.parametrize(
    ("given", "out", "read"),
    [
        ("data", "data/out.nq", True),
        ("data", "data/deep/out.nt.gz", True),
        ("linked", "data/out.nq", True),
        ("data/*.n?", "data/out.nq", True),
        ("data/**/*.nt", "data/deep/out.nt", True),
        ("data/*.nt", "data/deep/out.nt", False),
        ("data/*.nt", "data/out.nq", False),
        ("data", "data/_out.nt", False),
        ("data", "out.nt", False),
        ("data/a.nt", "data/out.nt", False),
    ],
)
def test_an_output_that_the_stream_would_read_is_refused(
    busy: Commands, given: str, out: str, read: bool
) -> None:
    os.symlink("data", "linked")
    construct = f"CONSTRUCT {{ ?b <http://ex/known> ?a }} FROM STREAM <{STREAM}> [NOW] {{ ?a ?p ?b }}"
    (busy.folder / "make.rq").write_text(construct)
    done = busy.run(given, "--out", out, query="make.rq")
    assert done.code == (2 if read else 0), done.err
    assert ("would be read as a part of" in done.err) == read
    assert (busy.folder / out).exists() != read


def test_results_beside_the_data_are_fine_and_are_not_called_skipped(busy: Commands) -> None:
    for _ in range(2):
        done = busy.run("data", "--out", "data/out.jsonl", "--late", "data/late", "--force")
        assert done.code == 0
        assert "skipped" not in done.err


def test_devices_and_pipes_have_nothing_to_lose(busy: Commands) -> None:
    printed = busy.run().out
    null = ["--out", "/dev/null", "--late", "/dev/null", "--quarantine", "/dev/null"]
    done = busy.run("people.nt", *null)
    assert (done.code, done.out) == (0, "")
    os.mkfifo("pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_text()))
    reader.start()
    assert busy.run("people.nt", "--out", "pipe").code == 0
    reader.join(timeout=30)
    assert read == [printed]


def test_a_suffix_is_still_asked_of_files() -> None:
    with pytest.raises(UsageError, match="unknown output format"):
        check_output(parse(FRIENDS), Path("results"))


def shell(command: str) -> subprocess.CompletedProcess[str]:
    line = command.replace(
        "THALWEG", f"{sys.executable} -m thalweg.cli run friends.rq --stream {STREAM}=people.nt"
    )
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)


def test_the_standard_output_by_its_name_is_not_emptied(busy: Commands) -> None:
    printed = busy.run().out
    (busy.folder / "people.nt").write_text("\n".join([PEOPLE[0], "oops .", *PEOPLE[1:]]))
    done = shell("echo before > o.jsonl; THALWEG --out /dev/stdout >> o.jsonl && cat o.jsonl")
    assert done.stdout == "before\n" + printed, done.stderr
    done = shell("THALWEG --out o.csv --quarantine /dev/stdout | cat")
    assert '"line": 2' in done.stdout, done.stderr


def test_results_that_are_appended_to_their_input_are_refused(busy: Commands) -> None:
    before = busy.files()
    done = shell("THALWEG >> people.nt")
    assert done.returncode == 2
    assert "the standard output: --out would overwrite an input" in done.stderr
    assert busy.files() == before


NAMES = [
    *("people.nt", "friends.rq", "data", "data/a.nt", "data/deep/b.nt", "thesis.jsonl", "empty.jsonl"),
    *(
        "new.jsonl",
        "data/new.nt",
        "data/new.jsonl",
        "none/new.jsonl",
        "hard.jsonl",
        "soft.jsonl",
        "/dev/null",
    ),
]
READS = {
    "people.nt": ["people.nt"],
    "data": ["data/a.nt", "data/deep/b.nt"],
    "data/*.nt": ["data/a.nt"],
    "data/**/*.nt": ["data/a.nt", "data/deep/b.nt"],
    ".": ["people.nt", "data/a.nt", "data/deep/b.nt"],
}


def same(one: str, others: Iterable[str]) -> bool:
    return any(os.path.exists(other) and os.path.samefile(one, other) for other in others)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    given=st.sampled_from(list(READS)),
    named=st.dictionaries(st.sampled_from(OPTIONS[:3]), st.sampled_from(NAMES), min_size=1),
    force=st.booleans(),
)
def test_no_option_changes_a_byte_of_a_file_that_is_read_or_was_not_given_up(
    busy: Commands, given: str, named: dict[str, str], force: bool
) -> None:
    folder = busy.folder
    for name in ("hard.jsonl", "soft.jsonl", "new.jsonl", "data/new.nt", "data/new.jsonl", "empty.jsonl"):
        (folder / name).unlink(missing_ok=True)
    for name, line in zip(("people.nt", "data/a.nt", "data/deep/b.nt"), PEOPLE, strict=True):
        (folder / name).write_text(line + "\n")
    (folder / "thesis.jsonl").write_text("three years of work\n")
    (folder / "empty.jsonl").touch()
    os.link("people.nt", "hard.jsonl")
    os.symlink("data/a.nt", "soft.jsonl")
    before = busy.files()
    options = [part for option, path in named.items() for part in (option, path)]
    done = busy.run(given, *options, *(["--force"] if force else []))
    after = busy.files()
    for name in before:
        if after.get(name) != before[name]:
            assert same(name, named.values())
            assert force or not before[name]
            assert not same(name, [*READS[given], "friends.rq"])
    if done.code == 2:
        assert after == before, "nothing is opened before all is checked"
