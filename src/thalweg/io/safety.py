"""Outputs that would destroy a file, or be read as input: refused before anything is opened."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path

from thalweg.errors import UsageError
from thalweg.io.inputs import contents_of, is_pattern, readable
from thalweg.io.live import STDIN

_DESCRIPTOR = re.compile(r"/(?:dev/(?:fd/(\d+)|(stdin|stdout|stderr))|proc/(?:self|\d+)/fd/(\d+))")
_NAMES = {"stdin": 0, "stdout": 1, "stderr": 2}
Identity = tuple[int, int]
"""Device and inode: what all names of a file have in common."""


def check_outputs(
    outputs: Mapping[str, Path | None],
    *,
    inputs: Mapping[str, str],
    queries: Sequence[str],
    force: bool = False,
    resumes: bool = False,
) -> None:
    """Refuse outputs that name an input, the query, each other, or a file that is there and not empty.

    `outputs` are options and their paths, where `-` is the standard output; `inputs` are streams and their paths.
    With `force` a file that is there is replaced; a run that `resumes` adds to its outputs. Devices and pipes have
    nothing to lose.
    """
    guarded = dict(_guarded(inputs, queries))
    taken: dict[Identity | str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        status = _status(option, path)
        names: list[Identity | str] = [_real(path)]
        if status is not None:
            names = [_identity(status)]
            if names[0] in guarded:
                _refuse(option, path, f"would overwrite {guarded[names[0]]}: name another file")
            if stat.S_ISCHR(status.st_mode):
                continue
        for name in names:
            if name in taken:
                _refuse(option, path, f"and {taken[name]} name the same file: give each its own")
            taken[name] = option
        if descriptor_of(path) is not None:
            continue
        if reader := _reader(path, inputs):
            _refuse(option, path, f"would be read as a part of {reader}: name a file elsewhere")
        if status is not None and stat.S_ISREG(status.st_mode) and status.st_size and not (force or resumes):
            _refuse(option, path, "names a file that exists and is not empty: use --force to replace it")


def descriptor_of(path: Path) -> int | None:
    """The number of an open file that a path like /dev/stdout stands for; None for all other paths.

    >>> descriptor_of(Path("/dev/stdout")), descriptor_of(Path("/dev/fd/7")), descriptor_of(Path("a.csv"))
    (1, 7, None)
    """
    name = "/dev/stdout" if str(path) == "-" else os.path.abspath(path)
    for _ in range(40):
        if match := _DESCRIPTOR.fullmatch(name):
            return _NAMES[match[2]] if match[2] else int(match[1] or match[3])
        if not os.path.islink(name):
            break
        name = os.path.normpath(os.path.join(os.path.dirname(name), os.readlink(name)))
    return None


def _refuse(option: str, path: Path, reason: str) -> None:
    raise UsageError(f"{option} {reason}", source="the standard output" if str(path) == "-" else str(path))


def _guarded(inputs: Mapping[str, str], queries: Sequence[str]) -> Iterator[tuple[Identity, str]]:
    """The files that no output may touch, and what they are."""
    named = [(query, "the query") for query in queries if query != "-"]
    for stream, path in inputs.items():
        files = [path]
        if os.path.isdir(path):
            files = contents_of(path).read
        elif is_pattern(path):
            files = glob(path, recursive=True)
        named += ((file, f"an input of <{stream}>") for file in files)
    for path, what in named:
        try:
            status = os.fstat(0) if path == STDIN else os.stat(path)
        except OSError:
            continue  # it will be missed when it is read
        if stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode):
            yield _identity(status), what


def _status(option: str, path: Path) -> os.stat_result | None:
    """What is at the path of an output, or None; refuses where no file can be."""
    number = descriptor_of(path)
    try:
        status = os.stat(path) if number is None else os.fstat(number)
    except FileNotFoundError:
        folder = os.path.dirname(_real(path)) if path.is_symlink() else str(path.parent)
        if not os.path.isdir(folder):
            _refuse(option, path, f"cannot be written: there is no folder {folder}")
        if not os.access(folder, os.W_OK | os.X_OK):
            _refuse(option, path, f"cannot be written: the folder {folder} is read-only")
        return None
    except OSError as error:
        raise UsageError(f"{option} cannot be written: {error.strerror}", source=str(path)) from None
    if stat.S_ISDIR(status.st_mode):
        _refuse(option, path, "is a folder: name a file in it")
    if number is None and not os.access(path, os.W_OK):
        _refuse(option, path, "cannot be written: the file is read-only")
    return status


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def _real(path: str | Path) -> str:
    return os.path.realpath(path)


def _reader(path: Path, inputs: Mapping[str, str]) -> str | None:
    """The stream that a file of this name is read into, now, by the next run, or by one that follows its folder."""
    folder, name = os.path.split(_real(path))
    for stream, given in inputs.items():
        if os.path.isdir(given):
            if readable(name) and folder in map(_real, contents_of(given).folders):
                return f"<{stream}>"
        elif is_pattern(given) and _matches(os.path.join(folder, name), given):
            return f"<{stream}>"
    return None


def _matches(path: str, pattern: str) -> bool:
    """Whether a pattern will find a file: as `glob` does it, but also where the file is not there yet."""
    parts = os.path.abspath(pattern).split(os.sep)
    plain = next(k for k, part in enumerate(parts) if has_magic(part))
    start = os.path.join(_real(os.sep.join(parts[:plain]) or os.sep), "")
    return path.startswith(start) and _fit(path.removeprefix(start).split(os.sep), parts[plain:])


def _fit(names: list[str], patterns: list[str]) -> bool:
    """Whether names of folders and of a file fit patterns, where `**` stands for any number of folders.

    >>> _fit(["b", "c.nt"], ["**", "*.nt"]), _fit(["c.nt"], ["**", "*.nt"]), _fit(["b", "c.nt"], ["*.nt"])
    (True, True, False)
    """
    if not patterns or not names:
        return not patterns and not names
    (name, *names_after), (pattern, *patterns_after) = names, patterns
    if name.startswith(".") and not pattern.startswith("."):
        return False
    if pattern == "**":
        return _fit(names, patterns_after) or _fit(names_after, patterns if names_after else patterns_after)
    return fnmatch(name, pattern) and _fit(names_after, patterns_after)
