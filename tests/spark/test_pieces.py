"""Planning without Spark: positions, admission and the cutting of files into whole lines."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from tests.spark.fakes import Play, chunks_of, job_of
from thalweg.engine import Session
from thalweg.errors import UsageError
from thalweg.io.files import read_events
from thalweg.spark import encode, pieces
from thalweg.spark.pieces import Position, line_end_after, line_end_before, listing, local_path, plan
from thalweg.spark.source import RdfStreamReader, SourceOptions, size_of
from thalweg.testing.strategies import LINE_ENDS

Lines = Callable[[int, int], bytes]


def reader(path: Path, **options: str) -> RdfStreamReader:
    return RdfStreamReader(SourceOptions.of({"path": str(path), "settle": "3600", **options}))


def drain(source: RdfStreamReader, start: dict[str, Any] | None = None, limit: int = 100) -> list[bytes]:
    """The bytes of every batch until the source says that nothing is new."""
    at = source.initialOffset() if start is None else start
    batches = []
    for _ in range(limit):
        end = source.latestOffset(at, source.getDefaultReadLimit())
        if end == at:
            return batches
        batches.append(content(source, at, end))
        at = end
    raise AssertionError("the source never came to rest")


def content(source: RdfStreamReader, start: dict[str, Any], end: dict[str, Any]) -> bytes:
    rows = [row for share in source.partitions(start, end) for row in source.read(share)]
    text = b""
    for _, path, _, begin, after, *_ in sorted(rows, key=lambda row: row[5]):
        if path:
            text += Path(path).read_bytes()[begin:after]
    return text


def test_a_growing_file_is_admitted_up_to_its_last_line_end(tmp_path: Path, lines: Lines) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(lines(0, 3) + b"<http://ex/half")
    source = reader(file)
    start = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    assert content(source, source.initialOffset(), start) == lines(0, 3)
    assert source.latestOffset(start, ReadAllAvailable()) == start
    with file.open("ab") as more:
        more.write(b"> <http://ex/p> <http://ex/o> .\n")
    end = source.latestOffset(start, ReadAllAvailable())
    assert content(source, start, end) == b"<http://ex/half> <http://ex/p> <http://ex/o> .\n"


def test_a_settled_file_gives_its_last_line_without_newline(tmp_path: Path, lines: Lines) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(lines(0, 2).rstrip(b"\n"))
    old = file.stat().st_mtime - 7200
    os.utime(file, (old, old))
    assert b"".join(drain(reader(file))) == lines(0, 2).rstrip(b"\n")


def test_end_of_stream_takes_everything_that_was_there_at_the_start_and_marks_the_last_piece(
    tmp_path: Path, lines: Lines
) -> None:
    (tmp_path / "a.nt").write_bytes(lines(0, 5))
    (tmp_path / "b.nt").write_bytes(lines(5, 9).rstrip(b"\n"))
    source = reader(tmp_path, endOfStream="true", maxBytesPerTrigger="100")
    source.prepareForTriggerAvailableNow()
    (tmp_path / "c.nt").write_bytes(lines(9, 10))
    at, marks = source.initialOffset(), []
    while (end := source.latestOffset(at, source.getDefaultReadLimit())) != at:
        rows = [row for share in source.partitions(at, end) for row in source.read(share)]
        marks += [row[7] for row in sorted(rows, key=lambda row: row[5])]
        at = end
    assert marks[-1] is True
    assert not any(marks[:-1])
    assert content(source, source.initialOffset(), at) == lines(0, 9).rstrip(b"\n")


def test_an_empty_finite_stream_is_one_empty_last_piece(tmp_path: Path) -> None:
    source = reader(tmp_path, endOfStream="true")
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    (share,) = source.partitions(source.initialOffset(), end)
    assert [row[1:] for row in source.read(share)] == [("", "", 0, 0, 0, "", True)]


def test_new_files_are_picked_up_in_the_order_of_their_names_after_those_begun(
    tmp_path: Path, lines: Lines
) -> None:
    (tmp_path / "m.nt").write_bytes(lines(0, 2))
    source = reader(tmp_path)
    start = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    (tmp_path / "z.nt").write_bytes(lines(6, 7))
    (tmp_path / "a.nt").write_bytes(lines(4, 6))
    (tmp_path / "_hidden.nt").write_bytes(lines(90, 91))
    (tmp_path / "readme.txt").write_bytes(b"not ours")
    with (tmp_path / "m.nt").open("ab") as more:
        more.write(lines(2, 4))
    end = source.latestOffset(start, ReadAllAvailable())
    assert content(source, start, end) == lines(2, 7)


def test_admission_keeps_to_bytes_and_files_and_cuts_at_line_ends(tmp_path: Path, lines: Lines) -> None:
    for k in range(6):
        (tmp_path / f"{k}.nt").write_bytes(lines(k * 10, k * 10 + 10))
    batches = drain(reader(tmp_path, maxBytesPerTrigger="600"))
    assert b"".join(batches) == lines(0, 60)
    assert all(batch.endswith(b"\n") and len(batch) < 700 for batch in batches)
    assert len(drain(reader(tmp_path, maxFilesPerTrigger="2"))) == 3
    source = reader(tmp_path, maxBytesPerTrigger="600")
    everything = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    assert content(source, source.initialOffset(), everything) == lines(0, 60)


def test_a_line_longer_than_every_limit_is_still_admitted_whole(tmp_path: Path, lines: Lines) -> None:
    long = b'<http://ex/s> <http://ex/p> "' + b"x" * 300_000 + b'" .\n'
    (tmp_path / "a.nt").write_bytes(long + lines(0, 1))
    assert drain(reader(tmp_path, maxBytesPerTrigger="1k", pieceBytes="1k")) == [long, lines(0, 1)]


def test_sequence_numbers_do_not_depend_on_how_a_batch_is_cut(tmp_path: Path, lines: Lines) -> None:
    (tmp_path / "a.nt").write_bytes(lines(0, 500))
    (tmp_path / "b.nt").write_bytes(lines(500, 900))
    source = reader(tmp_path)
    at = source.latestOffset(source.initialOffset(), ReadMaxBytes(1))
    end = Position.of_json(at)
    for size in (100, 1000, 10**6):
        pieces = plan(Position(), end, path_of=source._path_of, syntax=None, piece_bytes=size)
        text = b"".join(Path(p.path).read_bytes()[p.start : p.end] for p in pieces)
        assert text == lines(0, 900)
        for before, after in pairwise(pieces):
            assert after.seq == before.seq + before.end - before.start


def test_a_batch_is_spread_over_both_cores(tmp_path: Path, lines: Lines) -> None:
    (tmp_path / "a.nt").write_bytes(lines(0, 80_000))
    source = reader(tmp_path, partitions="2")
    end = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    shares = source.partitions(source.initialOffset(), end)
    weights = [sum(row[4] - row[3] for row in source.read(share)) for share in shares]
    assert len(weights) == 2
    assert min(weights) > 0.4 * sum(weights)


def test_gzipped_files_are_one_piece_each(tmp_path: Path) -> None:
    (tmp_path / "a.nq.gz").write_bytes(b"x" * 5000)
    (tmp_path / "b.nq.gz").write_bytes(b"y" * 5000)
    source = reader(tmp_path, endOfStream="true", pieceBytes="1k", maxBytesPerTrigger="100")
    end = source.latestOffset(source.initialOffset(), source.getDefaultReadLimit())
    rows = [row for share in source.partitions(source.initialOffset(), end) for row in source.read(share)]
    assert [(Path(row[1]).name, row[3], row[4], row[6]) for row in rows] == [("a.nq.gz", 0, 5000, "nq")]


def test_a_file_that_shrank_is_told_and_left_where_it_was(
    tmp_path: Path, lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(lines(0, 10))
    source = reader(file)
    start = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    file.write_bytes(lines(0, 2))
    assert source.latestOffset(start, ReadAllAvailable()) == start
    assert source.latestOffset(start, ReadAllAvailable()) == start
    assert capsys.readouterr().err.count("shrank from") == 1


TEXTS = st.lists(st.sampled_from([b"a", b"bcd", b"efghijkl", *LINE_ENDS]), max_size=30).map(b"".join)


@given(TEXTS, st.integers(0, 60), st.integers(0, 60), st.integers(1, 9))
def test_line_ends_are_found_from_both_sides(text: bytes, low: int, at: int, block: int) -> None:
    low, at = min(low, len(text)), min(at, len(text))
    with tempfile.NamedTemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "_BLOCK", block)
        file.write(text)
        file.flush()
        ends = [match.end() for match in re.finditer(rb"\r\n|\r|\n", text)]
        # A CR at the very end may be half of CR LF: whether a line ends there shows when more is written.
        sure = [end for end in ends if text[end - 1 : end] == b"\n" or end < len(text)]
        before = line_end_before(file.name, low, len(text))
        assert before == max([low, *sure])
        after = line_end_after(file.name, at, len(text))
        assert after == min((end for end in ends if end >= max(at, 1)), default=len(text))


@given(TEXTS, st.integers(1, 30), st.integers(1, 30))
def test_pieces_and_their_blocks_begin_behind_line_ends(text: bytes, piece: int, buffer: int) -> None:
    with tempfile.NamedTemporaryFile(suffix=".nt") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "_buffer", bytearray(buffer))
        file.write(text)
        file.flush()
        planned = plan(
            Position(),
            Position({"a": len(text)}, len(text)),
            path_of=lambda name: (file.name, name),
            syntax="nt",
            piece_bytes=piece,
        )
        found = [
            (at, bytes(lines))
            for one in planned
            for at, lines in encode.blocks(file.name, one.start, one.end - one.start)
        ]
    assert b"".join(lines for _, lines in found) == text
    ends = {0, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", text))}
    assert {at for at, _ in found} <= ends


def test_a_growing_file_of_lone_carriage_returns_is_admitted(tmp_path: Path, lines: Lines) -> None:
    file = tmp_path / "a.nt"
    text = lines(0, 3).replace(b"\n", b"\r")
    file.write_bytes(text)
    source = reader(file)
    start = source.latestOffset(source.initialOffset(), ReadAllAvailable())
    # Behind the last CR an LF may follow: its line waits for the next byte.
    assert content(source, source.initialOffset(), start) == lines(0, 2).replace(b"\n", b"\r")
    with file.open("ab") as more:
        more.write(b"\n" + text)
    end = source.latestOffset(start, ReadAllAvailable())
    assert content(source, start, end) == lines(2, 3).replace(b"\n", b"\r\n") + lines(0, 2).replace(
        b"\n", b"\r"
    )


@pytest.mark.parametrize("end", LINE_ENDS)
def test_both_runners_name_the_same_lines_whatever_ends_them(tmp_path: Path, end: bytes) -> None:
    texts = [b"<http://ex/s> <http://ex/p> <http://ex/o%d> ." % k if k % 7 else b"bad" for k in range(200)]
    path = tmp_path / "a.nt"
    path.write_bytes(end.join(texts))
    text = "SELECT ?x FROM STREAM <http://ex/s> [RANGE 100s] { ?x <http://ex/p> ?y }"
    job = job_of(text, shards=2, quarantine=str(tmp_path / "quarantine"))
    play = Play(job)
    for chunk in chunks_of(job, "http://ex/s", path, piece_bytes=1000):
        play.batch([chunk])
    files = (tmp_path / "quarantine").glob("*.jsonl")
    refused = sorted(json.loads(line)["line"] for file in files for line in file.read_text().splitlines())
    session = Session()
    for batch in read_events([path], "http://ex/s", session.arena, session.prune(), piece=1000):
        session.push_events(batch)
    assert refused == [reject.line for reject in session.quarantine()] == list(range(1, 201, 7))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "needs a path"),
        ({"path": "/nowhere/at/all.nt"}, "no such file"),
        ({"path": "s3://bucket/a.nt"}, "local paths"),
        ({"path": "/tmp", "syntax": "ttl"}, "not one of nt, nq"),
        ({"path": "/tmp", "maxBytesPerTrigger": "lots"}, "not a size"),
        ({"path": "/tmp", "maxFilesPerTrigger": "0"}, "at least 1"),
        ({"path": "/tmp", "endOfStream": "perhaps"}, "neither true nor false"),
        ({"path": "/tmp", "settle": "soon"}, "are numbers"),
        ({"path": "/tmp", "order": "size"}, "neither name nor mtime"),
    ],
)
def test_wrong_options_are_refused_with_a_sentence(options: dict[str, str], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        SourceOptions.of(options)


def test_an_offset_of_another_version_is_refused() -> None:
    with pytest.raises(UsageError, match="new checkpoint"):
        Position.of_json({"v": 0, "files": {}})


def test_patterns_and_urls_name_files(tmp_path: Path, lines: Lines) -> None:
    for name in ("a.nt", "b.nt", "c.nq"):
        (tmp_path / name).write_bytes(lines(0, 1))
    assert [Path(f.path).name for f in listing(str(tmp_path / "*.nt"))] == ["a.nt", "b.nt"]
    assert local_path(f"file:{tmp_path}/a.nt") == str(tmp_path / "a.nt")
    assert size_of("2MiB", "pieceBytes") == 2 << 20
