"""Folders that fill, and what can be wrong with them: the planner of `format("rdf")` without a Spark session."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from thalweg.errors import UsageError
from thalweg.spark.source import RdfStreamReader, SourceOptions

Lines = Callable[[int, int], bytes]


class Planner:
    """The batches of a reader, as Spark asks for them."""

    def __init__(self, path: Path, start: dict[str, Any] | None = None, **options: str) -> None:
        self.reader = RdfStreamReader(
            SourceOptions.of({"path": str(path), "stream": "http://ex/s", **options})
        )
        self.offset = self.reader.initialOffset() if start is None else start

    def batch(self) -> list[tuple[Any, ...]]:
        """The pieces of the next batch in their order; none where nothing is new."""
        end = self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())
        shares = self.reader.partitions(self.offset, end) if end != self.offset else []
        self.offset = end
        return sorted((row for share in shares for row in self.reader.read(share)), key=lambda row: row[5])

    def text(self) -> bytes:
        """The bytes of the next batch."""
        return b"".join(
            Path(path).read_bytes()[start:end] for _, path, _, start, end, _, _, _ in self.batch() if path
        )


def put(path: Path, data: bytes) -> Path:
    """A file that has not changed for long."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (0, 0))
    return path


def test_subfolders_that_appear_are_read_and_their_names_are_no_data(tmp_path: Path, lines: Lines) -> None:
    put(tmp_path / "day=1" / "a.nt", lines(0, 2))
    planner = Planner(tmp_path)
    assert planner.text() == lines(0, 2)
    put(tmp_path / "day=2" / "hour=0" / "a.nt", lines(2, 5))
    put(tmp_path / "_temporary" / "b.nt", b"not yet\n")
    assert planner.text() == lines(2, 5)
    assert planner.batch() == []


def test_thousands_of_small_files_come_in_batches_of_so_many_and_each_once(
    tmp_path: Path, lines: Lines
) -> None:
    for k in range(2000):
        put(tmp_path / f"part={k % 9}" / f"{k:04d}.nt", lines(k, k + 1))
    planner = Planner(tmp_path, maxFilesPerTrigger="700")
    batches = [planner.batch() for _ in range(4)]
    assert [len(batch) for batch in batches] == [700, 700, 600, 0]
    assert len({row[1] for batch in batches for row in batch}) == 2000
    again = Planner(tmp_path, start=planner.offset)
    assert again.batch() == [], "a restart knows all of them"


def test_a_folder_without_a_file_to_read_is_waited_for_and_reported_once(
    tmp_path: Path, lines: Lines, capfd: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "readme.txt", b"what is this\n")
    planner = Planner(tmp_path)
    assert planner.batch() == planner.batch() == []
    assert capfd.readouterr().err.count("no file to read") == 1
    put(tmp_path / "a.nt", lines(0, 1))
    assert planner.text() == lines(0, 1)


def test_a_finite_stream_of_files_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "readme.txt", b"what is this\n")
    with pytest.raises(UsageError, match="no file to read here"):
        Planner(tmp_path, endOfStream="true")
    assert len(Planner(tmp_path, endOfStream="true", syntax="nt").batch()) == 1


def test_a_file_that_shrinks_waits_until_it_has_grown_again(
    tmp_path: Path, lines: Lines, capfd: pytest.CaptureFixture[str]
) -> None:
    file = put(tmp_path / "a.nt", lines(0, 5))
    put(tmp_path / "b.nt", lines(5, 6))
    planner = Planner(tmp_path)
    assert planner.text() == lines(0, 6)
    put(file, lines(0, 2))
    put(tmp_path / "b.nt", lines(5, 7))
    assert planner.text() == lines(6, 7), "the others go on"
    assert planner.batch() == []
    assert capfd.readouterr().err.count("shrank") == 1
    put(file, lines(0, 8))
    assert planner.text() == lines(5, 8)


def test_a_file_that_is_gone_does_not_stop_the_others(tmp_path: Path, lines: Lines) -> None:
    put(tmp_path / "a.nt", lines(0, 5))
    planner = Planner(tmp_path, settle="1e12")
    assert planner.text() == lines(0, 5)
    listed = planner.reader._listing()
    planner.reader._listing = lambda: listed  # type: ignore[method-assign]
    (tmp_path / "a.nt").unlink()
    fresh = Planner(tmp_path, settle="1e12")
    fresh.reader._listing = lambda: listed  # type: ignore[method-assign]
    assert fresh.batch() == planner.batch() == []


@pytest.mark.parametrize("offset", [{"events": {"0": 60, "1": 59}}, {"logOffset": 3}, 17])
def test_a_checkpoint_of_another_source_is_refused(tmp_path: Path, offset: Any) -> None:
    with pytest.raises(UsageError, match="another source"):
        Planner(tmp_path, start=offset).batch()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("endofstreams", "did you mean endOfStream"),
        ("maxFilePerTrigger", "did you mean maxFilesPerTrigger"),
        ("colour", "there are path, stream, syntax"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_known_one(
    tmp_path: Path, name: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=f"the rdf source has no option {name}: {hint}"):
        Planner(tmp_path, **{name: "1"})


def test_options_are_known_in_small_and_capital_letters_and_those_that_spark_adds_are_none(
    tmp_path: Path, lines: Lines
) -> None:
    put(tmp_path / "a.nt", lines(0, 9))
    added = {"owner": "me", "provider": "rdf", "option.endofstream": "true"}
    planner = Planner(tmp_path, ENDOFSTREAM="true", maxbytespertrigger="64", **added)
    assert planner.text() == lines(0, 2)
