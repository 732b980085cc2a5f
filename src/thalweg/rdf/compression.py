"""The compressions of files: one table of names, suffixes and first bytes. Nothing here decompresses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Compression:
    """A compression: how it is called, how files of it end and begin, and what tests one."""

    title: str
    suffixes: tuple[str, ...]
    magic: tuple[bytes, ...]
    test: str
    """The command that tests a file."""


# A text may begin with `BZh`: the marker of the first block, or of the end of an empty file, belongs to it.
COMPRESSIONS = (
    Compression("gzip", (".gz",), (b"\x1f\x8b",), "gzip -t"),
    Compression("zstd", (".zst", ".zstd"), (b"\x28\xb5\x2f\xfd",), "zstd -t"),
    Compression(
        "bzip2",
        (".bz2",),
        tuple(b"BZh%d" % k + m for k in range(1, 10) for m in (b"1AY&SY", b"\x17rE8P\x90")),
        "bzip2 -t",
    ),
)
_LONGEST = max(len(magic) for one in COMPRESSIONS for magic in one.magic)


def compression_suffixes() -> list[str]:
    """The suffixes of all compressions.

    >>> compression_suffixes()
    ['.gz', '.zst', '.zstd', '.bz2']
    """
    return [suffix for one in COMPRESSIONS for suffix in one.suffixes]


def without_compression(name: str) -> str:
    """A name in small letters, without the suffix of a compression.

    >>> without_compression("A.NT.gz"), without_compression("b.ttl.zst")
    ('a.nt', 'b.ttl')
    """
    name = name.lower()
    suffix = next((one for one in compression_suffixes() if name.endswith(one)), "")
    return name.removesuffix(suffix)


def named_compression(path: str | Path) -> Compression | None:
    """The compression that the name of a file stands for, if any."""
    name = str(path).lower()
    return next((one for one in COMPRESSIONS if name.endswith(one.suffixes)), None)


def compression_by_magic(head: bytes) -> Compression | None:
    r"""The compression that the first bytes of a file stand for, if any.

    >>> compression_by_magic(b"\x1f\x8b\x08").title, compression_by_magic(b"BZh:s a BZh:C .")
    ('gzip', None)
    """
    return next((one for one in COMPRESSIONS if head.startswith(one.magic)), None)


def compression_of(path: str | Path) -> Compression | None:
    """The compression of a file by its first bytes, else by its name.

    >>> compression_of("missing.nt.gz").title, compression_of("missing.nt")
    ('gzip', None)
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_LONGEST)
    except OSError:
        head = b""
    return compression_by_magic(head) or named_compression(path)
