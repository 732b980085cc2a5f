"""Files: pieces of whole lines, packed or not, and the events in them."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.errors import UsageError
from thalweg.io.files import pieces, read_events
from thalweg.options import RunOptions
from thalweg.rdf.arena import Arena
from thalweg.rdf.formats import format_of
from thalweg.rdf.prune import Prune
from thalweg.testing.strategies import LINE_ENDS

LINE = b"<a:s> <a:p> <a:%d> .\n"


def taken(path: Path, size: int) -> list[tuple[int, bytes]]:
    return [(offset, bytes(data)) for offset, data in pieces(path, size)]


@pytest.mark.parametrize("suffix", [".nt", ".nt.gz"])
@given(data=st.data())
def test_pieces_are_whole_lines_and_together_the_file(
    suffix: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = data.draw(
        st.lists(st.sampled_from([b"a", b"\n", b"bc\n", b"\r\n", b"\r", b"x" * 20])).map(b"".join)
    )
    path = tmp_path_factory.mktemp("pieces") / f"data{suffix}"
    path.write_bytes(gzip.compress(content, mtime=0) if suffix.endswith("gz") else content)
    found = taken(path, data.draw(st.integers(1, 16)))
    assert b"".join(piece for _, piece in found) == content
    assert [offset for offset, _ in found] == [
        sum(len(piece) for _, piece in found[:k]) for k in range(len(found))
    ]
    assert all(piece.endswith((b"\n", b"\r")) for _, piece in found[:-1])
    assert not any(one.endswith(b"\r") and two.startswith(b"\n") for (_, one), (_, two) in pairwise(found))


@pytest.mark.parametrize("suffix", [".nt", ".nt.gz"])
def test_a_file_of_lone_carriage_returns_is_cut_into_pieces(tmp_path: Path, suffix: str) -> None:
    content = b"".join(LINE.replace(b"\n", b"\r") % k for k in range(100_000))
    path = tmp_path / f"data{suffix}"
    path.write_bytes(gzip.compress(content, 1, mtime=0) if suffix.endswith("gz") else content)
    sizes = [len(piece) for _, piece in taken(path, 1 << 16)]
    assert sum(sizes) == len(content)
    assert max(sizes) < 2 << 16


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("suffix", [".nt", ".nt.gz"])
@given(data=st.data())
def test_rejects_have_the_line_numbers_of_the_file_whatever_ends_the_lines(
    suffix: str, threads: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    parts = st.lists(st.sampled_from([LINE % 1, b"bad", b"# so", *LINE_ENDS, *LINE_ENDS]), max_size=40)
    content = b"".join(data.draw(parts))
    path = tmp_path_factory.mktemp("lines") / f"data{suffix}"
    path.write_bytes(gzip.compress(content, mtime=0) if suffix.endswith("gz") else content)
    piece = data.draw(st.integers(1, 60))
    batches = list(read_events([path], "s", Arena(), Prune.everything(), piece=piece, threads=threads))
    found = [reject.line for batch in batches for reject in batch.rejects]
    assert found == [k for k, line in enumerate(content.splitlines(), 1) if line.startswith(b"bad")]


def test_gzip_is_recognised_by_its_first_bytes_too(tmp_path: Path) -> None:
    path = tmp_path / "data.nt"
    path.write_bytes(gzip.compress(b"one\n", mtime=0) + gzip.compress(b"two\n"))
    assert b"".join(piece for _, piece in taken(path, 100)) == b"one\ntwo\n"


def test_a_gzip_file_that_breaks_off_gives_what_can_be_read_and_a_reject(tmp_path: Path) -> None:
    path = tmp_path / "data.nt.gz"
    content = b"".join(LINE % (k * 7919) for k in range(3000))
    packed = gzip.compress(content, mtime=0)
    path.write_bytes(packed[: len(packed) // 2])
    arena = Arena()
    batches = list(read_events([path], "s", arena, Prune.everything()))
    count = sum(batch.events for batch in batches)
    assert 500 < count < 3000
    found = [text for batch in batches for text in arena.texts(batch.rows.o)]
    assert found == [f"<a:{k * 7919}>" for k in range(count)]
    (reject,) = [reject for batch in batches for reject in batch.rejects]
    assert "breaks off" in reject.reason
    assert reject.source == str(path)


def test_a_file_that_only_claims_to_be_gzip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.nt.gz"
    path.write_bytes(LINE % 1)
    batches = list(read_events([path], "s", Arena(), Prune.everything()))
    assert sum(len(batch.rejects) for batch in batches) == 1


@pytest.mark.parametrize(
    ("name", "syntax"), [("a.nt", "nt"), ("a.b.NQ", "nq"), ("/x.y/a.nt.gz", "nt"), ("a.nq.GZ", "nq")]
)
def test_the_name_tells_the_syntax(name: str, syntax: str) -> None:
    assert format_of(name).name == syntax


@pytest.mark.parametrize("name", ["a.txt", "a", "a.gz", "nt", "a.nt.zip"])
def test_other_names_are_refused_with_advice(name: str) -> None:
    with pytest.raises(UsageError, match=r"the name of .* has no known suffix: expected \.nt, "):
        format_of(name)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.nt", b"bad\n", "malformed"),
        ("a.nt.gz", b"bad\n", "malformed"),
        ("a.nt.gz", gzip.compress(LINE % 1, mtime=0)[:-9], "truncated"),
        ("a.nt.gz", gzip.compress(LINE % 1, mtime=0)[:-9] + bytes(9), "damaged"),
        ("a.nq", b"<a:s> <a:p> <a:o> <a:g> .\n", "untimed"),
    ],
)
def test_a_reject_has_a_kind(name: str, content: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    batches = read_events([tmp_path / name], "s", Arena(), Prune.everything())
    assert [reject.kind for batch in batches for reject in batch.rejects] == [kind]


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none\.nt: No such file"):
        list(read_events([tmp_path / "none.nt"], "s", Arena(), Prune.everything()))


def test_files_of_one_stream_follow_each_other(tmp_path: Path) -> None:
    for k, name in enumerate(("one.nt", "two.nt.gz")):
        content = b"bad\n" + LINE % (2 * k) + LINE % (2 * k + 1)
        (tmp_path / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith("gz") else content)
    arena = Arena()
    paths = [tmp_path / "one.nt", tmp_path / "two.nt.gz"]
    events = read_events(paths, "s", arena, Prune.everything(), RunOptions(per_event=3), piece=8)
    batches = list(events)
    assert [event for batch in batches for event in batch.rows.event.tolist()] == [0, 0, 0, 1]
    assert [text for batch in batches for text in arena.texts(batch.rows.o)] == [f"<a:{k}>" for k in range(4)]
    assert [(reject.source, reject.line) for batch in batches for reject in batch.rejects] == [
        (str(path), 1) for path in paths
    ]
    assert events.statements == 4


def test_graphs_and_triples_do_not_share_a_stream_unasked(tmp_path: Path) -> None:
    for name in ("one.nt", "two.nq"):
        (tmp_path / name).write_bytes(LINE % 1)
    paths = [tmp_path / "one.nt", tmp_path / "two.nq"]
    with pytest.raises(UsageError, match="triples and of graphs: set mode, or give"):
        read_events(paths, "s", Arena(), Prune.everything())
    events = read_events(paths, "s", Arena(), Prune.everything(), RunOptions(mode="triples"))
    assert sum(batch.events for batch in events) == 2


@pytest.mark.parametrize("wrong", [{"per_event": 0}, {"rate": 0}, {"mode": "graphs", "format": "nt"}])
def test_wrong_reading_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        RunOptions(**wrong)  # type: ignore[arg-type]


def test_what_the_framer_holds_survives_compaction(tmp_path: Path) -> None:
    path = tmp_path / "data.nq"
    prov = b"<http://www.w3.org/ns/prov#generatedAtTime>"
    path.write_bytes(
        b"".join(b'<a:s> <a:p> _:b <a:g%d> .\n<a:g%d> %b "%d" .\n' % (k, k, prov, k) for k in range(40))
    )
    arena = Arena()
    events = read_events([path], "s", arena, Prune.everything(), piece=100)
    seen = 0
    for batch in events:
        assert all(text.startswith("_:e") for text in arena.texts(batch.rows.o))
        seen += len(batch)
        arena.compact(events.live_ids())
    assert seen == 40


@pytest.mark.parametrize("mode", ["triples", "graphs"])
def test_reading_by_several_threads_gives_the_same_batches_in_the_same_order(tmp_path, mode):
    lines = []
    for k in range(400):
        if mode == "graphs":
            lines.append(f'<http://ex/g{k}> <http://www.w3.org/ns/prov#generatedAtTime> "{k}" .')
            lines += [f"<http://ex/s{k}> <http://ex/p> _:b{j} <http://ex/g{k}> ." for j in range(3)]
        else:
            lines.append(f'<http://ex/s{k % 7}> <http://ex/p> "caf\\u00e9 {k}" .')
        if k % 50 == 49:
            lines.append("not a statement")
    path = tmp_path / ("s.nq" if mode == "graphs" else "s.nt")
    path.write_text("\n".join(lines))
    seen = []
    for threads in (1, 2, 3):
        arena = Arena()
        events = read_events([path], "http://ex/s", arena, Prune.everything(), piece=500, threads=threads)
        rows, rejects = [], []
        for batch in events:
            texts = [arena.texts(getattr(batch.rows, name)) for name in "spo"]
            rows += zip(batch.rows.time.tolist(), batch.rows.event.tolist(), *texts, strict=True)
            rejects += [(reject.line, reject.reason) for reject in batch.rejects]
        seen.append((rows, rejects, events.statements, events.bytes))
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0][0]) >= 400
