"""Compressed files: every compression for every format, what breaks off, and what unpacks to too much."""

from __future__ import annotations

import bz2
import gzip
import sys
from pathlib import Path

import pytest

from thalweg.io.files import pieces, read_events
from thalweg.options import RunOptions
from thalweg.rdf import unpacking
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Reject
from thalweg.rdf.compression import COMPRESSIONS, compression_of
from thalweg.rdf.prune import Prune

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PACK = {".gz": gzip.compress, ".zst": zstd.compress, ".bz2": bz2.compress}
CONTENT = b"".join(b"<a:s> <a:p> <a:%d> .\n" % (k * 7919) for k in range(3000))


def found(path: Path, options: RunOptions | None = None) -> tuple[list[str], list[Reject]]:
    """The objects of a file's statements, and what was refused."""
    arena = Arena()
    batches = list(read_events([path], "s", arena, Prune.everything(), options))
    objects = [text for batch in batches for text in arena.texts(batch.rows.o)]
    return objects, [reject for batch in batches for reject in batch.rejects]


def test_all_compressions_are_tested() -> None:
    assert [one.suffixes[0] for one in COMPRESSIONS] == list(PACK)


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("format", [".nt", ".ttl", ".rdf"])
def test_every_format_is_read_from_every_compression(suffix: str, format: str, tmp_path: Path) -> None:
    text = {
        ".nt": CONTENT,
        ".ttl": b"@prefix a: <a:> . a:s a:p " + b",".join(b"a:%d" % (k * 7919) for k in range(3000)) + b" .",
        ".rdf": b'<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="a:">'
        b'<r:Description r:about="a:s">'
        + b"".join(b'<a:p r:resource="a:%d"/>' % (k * 7919) for k in range(3000))
        + b"</r:Description></r:RDF>",
    }[format]
    (tmp_path / f"data{format}{suffix}").write_bytes(PACK[suffix](text))
    objects, rejects = found(tmp_path / f"data{format}{suffix}")
    assert objects == [f"<a:{k * 7919}>" for k in range(3000)]
    assert not rejects


@pytest.mark.parametrize("suffix", PACK)
def test_members_that_follow_each_other_are_one_text_and_zeros_behind_them_are_ignored(
    suffix: str, tmp_path: Path
) -> None:
    file = tmp_path / f"data.nt{suffix}"
    file.write_bytes(PACK[suffix](b"one\nt") + PACK[suffix](b"") + PACK[suffix](b"wo\n") + bytes(70_000))
    source = pieces(file)
    assert b"".join(bytes(data) for _, data in source) == b"one\ntwo\n"
    assert not source.rejects
    file.write_bytes(PACK[suffix](b"one\n") + b"more")
    source = pieces(file)
    assert b"".join(bytes(data) for _, data in source) == b"one\n"
    assert [reject.kind for reject in source.rejects] in (["damaged"], ["truncated"])


@pytest.mark.parametrize("suffix", PACK)
def test_a_compression_is_known_by_its_first_bytes_whatever_the_name(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / "data.nt"
    file.write_bytes(PACK[suffix](CONTENT))
    assert len(found(file)[0]) == 3000
    file = tmp_path / "BZh.nt"
    file.write_bytes(b"BZhang")
    assert compression_of(file) is None


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize(("name", "kept"), [("data.nt", True), ("data.ttl", False)])
def test_whole_lines_before_a_break_are_kept_and_documents_refused(
    suffix: str, name: str, kept: bool, tmp_path: Path
) -> None:
    file = tmp_path / f"{name}{suffix}"
    # Two members, so that a compression that unpacks in one block has something before the break.
    packed = PACK[suffix](CONTENT) + PACK[suffix](CONTENT)
    file.write_bytes(packed[:-20])
    objects, (reject,) = found(file)
    assert reject.kind == "truncated"
    assert "breaks off" in reject.reason
    assert (len(objects) >= 3000) == kept
    assert objects[:3000] == ([f"<a:{k * 7919}>" for k in range(3000)] if kept else [])
    damaged = bytearray(packed)
    damaged[len(packed) // 2 + 40] ^= 0xFF
    file.write_bytes(damaged)
    objects, (reject,) = found(file)
    assert reject.kind == "damaged"
    assert (len(objects) >= 3000) == kept


@pytest.mark.parametrize("suffix", PACK)
def test_a_bomb_is_refused_and_what_comes_before_its_limit_is_kept(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "UNPACK_FREE", 1 << 20)
    file = tmp_path / f"bomb.nt{suffix}"
    size = 3 << 20
    file.write_bytes(PACK[suffix](b"<a:s> <a:p> <a:o> .\n" * 1000 + b"#" + b"a" * size))
    assert file.stat().st_size * 200 < size
    objects, (reject,) = found(file)
    assert len(objects) == 1000
    assert reject.kind == "oversized"
    assert "--unpack-ratio" in reject.reason
    assert found(file, RunOptions(unpack_ratio=0))[1] == []
    assert found(file, RunOptions(unpack_ratio=10**6))[1] == []


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("content", [b"\x1f", b"no", bytes(100)])
def test_a_file_that_only_claims_to_be_compressed_is_refused(
    suffix: str, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / f"a.nt{suffix}").write_bytes(content)
    objects, (reject,) = found(tmp_path / f"a.nt{suffix}")
    assert not objects
    assert reject.kind == "malformed"
