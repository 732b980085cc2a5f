"""The static data of a run: what `--static` names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from thalweg.arguments import graph_name_of
from thalweg.errors import UsageError
from thalweg.static.data import StaticData
from thalweg.static.document import UNNAMED
from thalweg.static.files import open_document
from thalweg.static.reading import format_of_static, path_of


def static_of(options: Iterable[str], cache: Path | None = None) -> StaticData:
    """The static data of options `[IRI=]PATH`; with a `cache` folder, from former runs."""
    data = StaticData()
    for option in options:
        graph, path = split_option(option)
        data.load(open_document(path, format_of_static(path, None), cache), graph, replace=False)
    return data


def split_option(option: str) -> tuple[str, Path]:
    """The graph and the file of an option; a file may have `=` in its name."""
    iri, equals, rest = option.partition("=")
    if equals and ":" in iri and not Path(option).exists():
        return graph_name_of(iri), _file(rest)
    return UNNAMED, _file(option)


def _file(path: str) -> Path:
    found = path_of(Path(path)) if path else None
    if found is None:
        raise UsageError("--static is [IRI=]PATH: the path of a file is missing")
    return found
