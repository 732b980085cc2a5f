"""The order of the rooms: imports point downwards, and Spark has one home."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "thalweg"

# A room may import from itself and from the rooms to its left.
ORDER = [
    *("errors", "hints", "lines", "deep", "instants", "kernels", "rdf", "schema", "options", "static"),
    *("algebra", "lang", "expressions", "plan", "operators"),
    *("terms", "arguments", "explaining", "statements", "rows", "tables", "answers", "subscriptions"),
    *("saving", "compaction", "side_outputs", "engine"),
    *("io", "store", "client", "server", "spark", "testing", "demo", "bench", "warmup", "cli"),
]
# Rooms that know less than their place in the row would allow.
NARROW = {
    "errors": set(),
    "hints": set(),
    "lines": set(),
    "deep": set(),
    "instants": {"errors"},
    "kernels": set(),
    "rdf": {"kernels", "errors", "instants", "lines"},
    "options": {"errors", "hints", "instants", "rdf"},
    "schema": {"kernels", "errors", "rdf"},
    "static": {"errors", "kernels", "rdf"},
    "algebra": {"deep", "errors", "instants", "schema"},
    "lang": {"algebra", "deep", "errors", "hints", "instants", "lines", "schema"},
    "expressions": {"algebra", "errors", "instants", "kernels", "rdf"},
    # The oracles and generators judge the engine: they must not lean on it.
    "testing": {"errors", "instants"},
}
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(file: Path) -> str:
    first = file.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute module name of every import in a file, those inside functions too."""
    package = ("thalweg", *file.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            if module == "thalweg":
                yield from ((node.lineno, f"thalweg.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_downwards(file: Path) -> None:
    room = room_of(file)
    if room == "__init__":
        return
    assert room in ORDER, f"{room} has no place in the order of rooms: give it one in {Path(__file__).name}"
    allowed = NARROW.get(room, set(ORDER[: ORDER.index(room)])) | {room}
    for line, module in imports(file):
        if module == "thalweg":
            assert ORDER.index(room) > ORDER.index("testing"), f"{file}:{line}: imports the whole package"
        elif module.startswith("thalweg."):
            target = module.split(".")[1]
            known = (
                target if target in ORDER else "cli"
            )  # a public name of the package: for the outermost rooms
            assert known in allowed, f"{file}:{line}: {room} must not import {module}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_only_the_spark_room_imports_pyspark(file: Path) -> None:
    if room_of(file) != "spark":
        for line, module in imports(file):
            assert module.split(".")[0] not in {"pyspark", "py4j"}, f"{file}:{line}: imports {module}"


@pytest.mark.parametrize("module", ["thalweg", "thalweg.cli"])
def test_importing_the_package_does_not_load_spark_or_the_oracle(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{'pyspark', 'hypothesis', 'pandas'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
