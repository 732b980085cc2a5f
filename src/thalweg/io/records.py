"""Side outputs: quarantine and late events as JSON lines, and the log of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Self

from thalweg.instants import show_instant
from thalweg.io.opening import open_file

_SOURCES = 100


class Records:
    """A side output (quarantine, late events): one JSON object a line. Without a path it only counts."""

    def __init__(self, path: Path | None, *, append: bool = False) -> None:
        self.count = 0
        self.first: Any = None
        self.sources: dict[str, Any] = {}
        """The first record of each source, of the first sources only."""
        self._out = None if path is None else open_file(path, append)

    def write(self, records: Iterable[Any]) -> None:
        """Write dataclasses or mappings, one a line; `at` and `watermark` are instants."""
        for record in records:
            self.count += 1
            if self.first is None:
                self.first = record
            source = record.get("source") if isinstance(record, dict) else getattr(record, "source", None)
            if source and source not in self.sources and len(self.sources) < _SOURCES:
                self.sources[source] = record
            if self._out is not None:
                cells = _cells(record)
                self._out.write(json.dumps(cells, ensure_ascii=False).encode() + b"\n")

    def flush(self) -> None:
        """Let readers of the output see what was written."""
        if self._out is not None:
            self._out.flush()

    def close(self) -> None:
        """Finish the output."""
        if self._out is not None:
            self._out.close()


class Lines:
    """A log: lines that are added to a file, each to be seen at once. Without a path nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self._out = None if path is None else open_file(path, append=True)

    def write(self, line: str) -> None:
        """Add a line."""
        if self._out is not None:
            self._out.write(line.encode() + b"\n")
            self._out.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._out is not None:
            self._out.close()


def _cells(record: Any) -> dict[str, Any]:
    cells = asdict(record) if is_dataclass(record) and not isinstance(record, type) else dict(record)
    return cells | {key: show_instant(cells[key]) for key in ("at", "watermark") if key in cells}
