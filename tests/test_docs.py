"""README and docs/ keep their promises: their files, commands and Python blocks are run as they stand.

A page is a script. `<!-- file: name -->` before a block writes it to a file. In a `console` block, lines
after `$ ` are commands and the others their output, where `...` stands for anything. A `python` block runs in
one namespace per page; a `text` block after it is what it prints. `<!-- spark -->` marks what needs Java.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# The tutorial starts one command after the other: `make quick` leaves it to `make docs` and `make test`.
SCRIPTS = [
    ROOT / "README.md",
    *(
        pytest.param(ROOT / "docs" / name, marks=pytest.mark.slow)
        for name in ("tutorial.md", "convert.md", "mapping.md", "sequences.md", "store.md")
    ),
]
BLOCK = re.compile(r"(?P<marks>(?:<!-- [^\n]* -->\n)*)```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.S | re.M)


@dataclass(frozen=True)
class Step:
    """One block of a page, with the line that it begins at."""

    kind: str
    text: str
    marks: str
    line: int


def steps(page: Path) -> Iterator[Step]:
    content = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(content):
        line = content.count("\n", 0, found.start("kind")) + 1
        yield Step(found["kind"], found["text"], found["marks"], line)


def matches(printed: str, expected: str) -> bool:
    """Whether an output is the expected one, where `...` stands for anything.

    >>> matches("a 17 c", "a ... c")
    True
    """
    escaped = re.sub(r"([*?\[])", r"[\1]", expected.strip())
    return fnmatch.fnmatchcase(printed.strip(), escaped.replace("...", "*"))


def run_console(step: Step, page: Path, folder: Path) -> None:
    commands = re.split(r"^\$ ", step.text, flags=re.M)[1:]
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120",
    }
    for command in commands:
        lines = command.split("\n")
        taken = 1
        while lines[taken - 1].endswith("\\"):
            taken += 1
        text, expected = "\n".join(lines[:taken]), "\n".join(lines[taken:])
        if text.startswith(("make ", "git ")):  # these would run the tests within the tests
            continue
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        place = f"{page.name}:{step.line}: $ {text}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, place
        if expected.strip():
            assert matches(done.stdout, expected), f"{place}\nexpected:\n{expected}"


def run_page(page: Path, folder: Path, capsys: pytest.CaptureFixture[str], *, spark: bool) -> None:
    names: dict[str, object] = {"__name__": page.stem}
    printed = ""
    os.chdir(folder)
    for step in steps(page):
        if "<!-- spark -->" in step.marks and not spark:
            continue
        if named := re.search(r"<!-- file: (\S+) -->", step.marks):
            (folder / named[1]).write_text(step.text, encoding="utf-8")
        elif step.kind == "console":
            run_console(step, page, folder)
        elif step.kind == "python":
            # What starts a query on Spark leaves folders behind: it has to run a second time, too.
            for _ in range(2 if "<!-- spark -->" in step.marks else 1):
                exec(compile(step.text, f"{page}:{step.line}", "exec"), names)
                printed = capsys.readouterr().out
        elif step.kind == "text":
            assert matches(printed, step.text), f"{page.name}:{step.line}: printed\n{printed}"


@pytest.mark.parametrize("page", SCRIPTS, ids=lambda page: page.name)
def test_a_page_does_what_it_says(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, capsys, spark=False)


@pytest.mark.spark
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page.name == "README.md" else pytest.mark.soak)
        for page in PAGES
        if "<!-- spark -->" in page.read_text(encoding="utf-8")
    ],
    ids=lambda page: page.name,
)
def test_a_page_does_what_it_says_on_spark_too(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, capsys, spark=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]+)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(page.parent / target), f"{page.name}: {target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """The names of a page's headings in links."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md", "docs/reference.md"])
def test_the_settings_of_a_session_of_your_own_are_reached_from_where_newcomers_are(page: str) -> None:
    assert "spark.md#settings-of-a-session-of-your-own)" in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_that_a_page_names_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(
        r"^(?:\$ )?make (\w+)|`make (\w+)", page.read_text(encoding="utf-8"), flags=re.M
    ):
        name = "".join(target)
        assert re.search(rf"^{name}:", makefile, flags=re.M), f"{page.name}: make {name}"


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert all(page.name in index for page in folder.glob("0*.md"))
