"""Files to write to, plain or compressed by their suffix, and errors of the file system that name them."""

from __future__ import annotations

import bz2
import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from thalweg.errors import ThalwegError, UsageError
from thalweg.io.safety import descriptor_of
from thalweg.rdf.compression import named_compression


def open_file(path: Path, append: bool = False) -> IO[bytes]:
    """A file to write to, compressed if its name says so. What stands for an open file (/dev/stdout) is that one."""
    mode = "ab" if append else "wb"
    try:
        if (number := descriptor_of(path)) is not None:
            return open(os.dup(number), "wb")
        packed_as = named_compression(path)
        kind = "" if packed_as is None else packed_as.title
        if kind == "gzip":
            return gzip.open(path, mode, compresslevel=6)  # type: ignore[return-value]
        if kind == "bzip2":
            return bz2.open(path, mode)  # type: ignore[return-value]
        if kind == "zstd":
            import pyarrow as pa

            # A file that is added to gets one more frame, as a gzipped one gets one more member.
            file = pa.PythonFile(open(path, mode), "w")  # noqa: SIM115
            packed: Any = pa.CompressedOutputStream(file, "zstd")
            return packed  # type: ignore[no-any-return]
        return open(path, mode)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", source=str(path)) from None


def write_all(out: IO[bytes], data: bytes) -> None:
    """Write all of it: an unbuffered standard output may take a part only, e.g. when a signal comes."""
    rest = memoryview(data)
    while rest:
        rest = rest[out.write(rest) or 0 :]


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Errors of the file system within are about the output of this name; that its reader has gone is none of them."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ThalwegError(f"cannot be written: {error.strerror or error}", source=name) from None
