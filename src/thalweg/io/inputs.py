"""The inputs of a run: which streams are read from which paths, and which files these are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from glob import glob, has_magic

from thalweg.errors import UsageError
from thalweg.io.live import STDIN, is_live
from thalweg.options import RunOptions
from thalweg.rdf.formats import found_in_folder, readable_suffixes
from thalweg.rdf.mapping import Mapping as RowMapping

_QUERY_SUFFIXES = (".rq", ".sparql", ".rspql")


def inputs_of(options: Iterable[str]) -> dict[str, str]:
    """Streams and paths of `IRI=PATH` options.

    >>> inputs_of(["http://ex/s=/dev/null"])
    {'http://ex/s': '/dev/null'}
    """
    inputs: dict[str, str] = {}
    for option in options:
        stream, path = _split(option)
        if stream in inputs:
            raise UsageError(f"--stream gives <{stream}> twice: put its files into one folder")
        if path == STDIN and STDIN in inputs.values():
            raise UsageError("two streams cannot both be read from the standard input")
        if path.lower().endswith(_QUERY_SUFFIXES):
            raise UsageError(
                "this is a query by its name: it is the first argument, not a stream", source=path
            )
        inputs[stream] = path
    return inputs


def mappings_of(
    options: Iterable[str], streams: Iterable[str]
) -> tuple[RowMapping | dict[str, RowMapping] | None, list[str]]:
    """The mappings of `[IRI=]PATH` options: one for all streams, or by stream; and their paths."""
    given, paths = list(options), list[str]()
    found: dict[str, RowMapping] = {}
    for option in given:
        if os.path.isfile(path := os.path.expanduser(option)):
            if len(given) > 1:
                raise UsageError(f"--mapping {option} is for all streams: with several, each is IRI=PATH")
            return RowMapping.read(path), [path]
        if "=" not in option:
            return RowMapping.read(path), [path]  # which says why it cannot be read
        stream, path = _split(option, "--mapping")
        if stream not in streams:
            raise UsageError(
                f"--mapping is for <{stream}>, and no --stream gives it: given are {', '.join(streams)}"
            )
        if stream in found:
            raise UsageError(f"--mapping gives <{stream}> twice")
        found[stream] = RowMapping.read(path)
        paths.append(path)
    return found or None, paths


def files_of(path: str, options: RunOptions | None = None) -> list[str]:
    """The files of a path: itself, what a pattern matches, or the RDF files of a folder, by name.

    If the options name a format, all files of a folder are read. Files of triples, of graphs and of events in one
    stream are refused: they have different notions of an event.
    """
    options = options or RunOptions()
    if is_live(path):
        if options.format is None:
            raise UsageError(f"{path} has no suffix that states a format: give --format")
        if options.arrival and options.mode_for(options.format_for(path)) == "graphs":
            raise UsageError("--arrival is for formats without named graphs: these state their times")
        return [path]
    if os.path.isdir(path):
        files = contents_of(path, options).read
        if not files:
            raise UsageError(f"there is no file to read here ({readable_suffixes()})", source=path)
    elif is_pattern(path):
        files = [name for name in sorted(glob(path, recursive=True)) if os.path.isfile(name)]
        if not files:
            raise UsageError("no file has such a name", source=path)
    else:
        files = [path]
    kinds = {format.mode: (format, file) for file in files for format in [options.format_for(file)]}
    if len(kinds) > 1:
        (one, first), (other, second), *_ = (kinds[mode] for mode in sorted(kinds, reverse=True))
        raise UsageError(
            f"{one.title} ({first}) and {other.title} ({second}) in one stream: give them as two streams",
            source=path,
        )
    return files


def existing(path: str) -> None:
    """Refuse a path at which nothing is."""
    if (
        not is_live(path)
        and not os.path.exists(path)
        and not (has_magic(path) and glob(path, recursive=True))
    ):
        raise UsageError("no such file or folder", source=path)


def is_pattern(path: str) -> bool:
    """Whether a path is a pattern of names, and not a file or folder that happens to be called so."""
    return has_magic(path) and not os.path.exists(path)


def readable(name: str, options: RunOptions | None = None) -> bool:
    """Whether a file with this name is read where it is found in a folder.

    >>> readable("a.NT.gz"), readable("a.txt"), readable("_a.nt"), readable("a.txt", RunOptions(format="turtle"))
    (True, False, False, True)
    """
    named = options is not None and options.format is not None
    rows = options is not None and options.mapping is not None
    return not hidden(name) and (named or found_in_folder(name, rows=rows))


def hidden(name: str) -> bool:
    """Whether a name in a folder is left out without a word."""
    return name.startswith((".", "_"))


@dataclass
class Contents:
    """What is in a folder and its subfolders: files to read and files of other suffixes, by name, and the folders."""

    read: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


def contents_of(folder: str, options: RunOptions | None = None) -> Contents:
    """What is in a folder; paths begin with that of the folder."""
    found = Contents()
    for name, kind in _walk(folder, "", options):
        getattr(found, kind).append(name)
    for names in (found.read, found.skipped, found.folders):
        names.sort()
        names[:] = [os.path.join(folder, name) for name in names]
    return found


def _walk(folder: str, prefix: str, options: RunOptions | None) -> Iterator[tuple[str, str]]:
    yield prefix, "folders"
    with os.scandir(folder) as entries:
        for entry in entries:
            if hidden(entry.name):
                continue
            if entry.is_dir():
                yield from _walk(entry.path, f"{prefix}{entry.name}/", options)
            else:
                yield prefix + entry.name, "read" if readable(entry.name, options) else "skipped"


def _split(option: str, name: str = "--stream") -> tuple[str, str]:
    # Both sides may have a "=" inside: the right cut is one that leaves a path which exists.
    cuts = [i for i, c in enumerate(option) if c == "="]
    for cut in reversed(cuts):
        stream, path = option[:cut].removeprefix("<").removesuffix(">"), os.path.expanduser(option[cut + 1 :])
        if stream and path and is_live(path):
            return stream, path
        if stream and path and (os.path.exists(path) or (has_magic(path) and glob(path, recursive=True))):
            return stream, path
    if not cuts or not option[: cuts[-1]] or not option[cuts[-1] + 1 :]:
        raise UsageError(f"{name} is IRI=PATH, not {option!r}")
    for cut in cuts:
        path, stream = option[:cut], option[cut + 1 :]
        if os.path.exists(os.path.expanduser(path)) and ":" in stream:
            raise UsageError(
                f"--stream is IRI=PATH, and not the other way round: write --stream {stream}={path}"
            )
    raise UsageError("no such file or folder", source=option[cuts[-1] + 1 :])
