"""Commands for tests: run in this process, with what they printed, and a folder with a query and a stream."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from thalweg.cli import _main

EX = "http://ex/"
STREAM = f"{EX}people"
PEOPLE = [
    f"<{EX}ann> <{EX}knows> <{EX}ben> .",
    f"<{EX}ben> <{EX}knows> <{EX}cem> .",
    f"<{EX}cem> <{EX}knows> <{EX}dora> .",
]
FRIENDS = f"SELECT ?a ?c FROM STREAM <{STREAM}> [RANGE 10] {{ ?a <{EX}knows> ?b . ?b <{EX}knows> ?c }}"
TIME = "<http://www.w3.org/ns/prov#generatedAtTime>"


def quads(number: int) -> str:
    """A graph of one statement, and its time."""
    return f'<{EX}g{number}> {TIME} "{number}" .\n{PEOPLE[number % 3][:-1]} <{EX}g{number}> .\n'


@dataclass
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of the error output, without the name of the program."""
        return [line.removeprefix("thalweg: ") for line in self.err.splitlines()]

    @property
    def rows(self) -> list[tuple[str, str, dict[str, str]]]:
        return [(row["at"], row["op"], row["bindings"]) for row in map(json.loads, self.out.splitlines())]


class Commands:
    """Runs commands in a folder."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[bytes]) -> None:
        self.folder, self._capture = folder, capture
        (folder / "friends.rq").write_text(FRIENDS)
        (folder / "people.nt").write_text("\n".join(PEOPLE) + "\n")

    def __call__(self, *arguments: str) -> Done:
        self._capture.readouterr()
        code = _main(arguments)
        out, err = self._capture.readouterr()
        return Done(code, out.decode(), err.decode())

    def run(self, path: str = "people.nt", *options: str, query: str = "friends.rq") -> Done:
        return self("run", query, "--stream", f"{STREAM}={path}", *options)

    def files(self) -> dict[str, bytes]:
        """All regular files of the folder with their content."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }
