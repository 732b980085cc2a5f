"""How often the patterns of a query fit, by a look at the beginnings of files: what shares are chosen by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np

from thalweg.algebra.query import Query
from thalweg.io.files import pieces
from thalweg.options import RunOptions
from thalweg.plan.coverage import fits
from thalweg.plan.pruning import signature_of
from thalweg.rdf.arena import Arena
from thalweg.rdf.chunk import Chunk
from thalweg.rdf.formats import FORMATS, Format, Reader, SequentialReader
from thalweg.rdf.prune import Prune
from thalweg.spark.pieces import BY_SUFFIX, format_for, listing, local_path
from thalweg.static.data import StaticData

_SAMPLE = 4 << 20
_FILES = 4
SIZES = "thalweg-sizes.json"


def sampled_sizes(
    query: Query,
    streams: Mapping[str, str],
    syntax: str | None = None,
    options: RunOptions | None = None,
    static: StaticData | None = None,
) -> dict[int, float]:
    """For each pattern how many triples fit it in samples of its streams, and in static data; one more, as none may be
    chance.
    """
    sizes = dict.fromkeys(range(len(query.patterns)), 1.0)
    if static:
        for number, pattern in enumerate(query.patterns):
            sizes[number] += static.count(query.sources[pattern.source].graphs, signature_of(pattern))
    prune = Prune.everything()
    options = options or RunOptions()
    for stream, path in streams.items():
        mapping = options.mapping_for(stream)
        kind = BY_SUFFIX if syntax is None and mapping is not None else syntax
        files = [found.path for found in listing(local_path(path), kind) if found.size]
        for file in islice(files, 0, None, max(1, len(files) // _FILES)):
            arena = Arena()
            format = format_for(file, kind) or FORMATS["nt"]
            extras: dict[str, Any] = {"mapping": format.required(mapping, file)} if format.has_rows else {}
            reader = format.reader(arena, prune, source=file, blank_nodes="stable", **extras)
            for chunk in _beginning(reader, format, file):
                for number, pattern in enumerate(query.patterns):
                    if stream in query.sources[pattern.source].streams:
                        sizes[number] += int(np.count_nonzero(fits(pattern, chunk, arena)))
    return sizes


def _beginning(reader: Reader, format: Format, file: str) -> Iterator[Chunk]:
    """The first chunks of a file."""
    for _, data in islice(pieces(file, _SAMPLE), 1):
        if format.sequential:
            reading = cast(SequentialReader, reader)
            yield from (reading.feed(data), reading.finish(broken=True))
        else:
            yield reader.read(data)


def kept_sizes(
    checkpoint: str,
    query: Query,
    streams: Mapping[str, str],
    syntax: str | None = None,
    options: RunOptions | None = None,
    static: StaticData | None = None,
) -> dict[int, float]:
    """The same; a checkpoint keeps what was found, for its state is spread by it."""
    kept = Path(checkpoint) / SIZES
    if kept.exists():
        return {int(number): size for number, size in json.loads(kept.read_text()).items()}
    sizes = sampled_sizes(query, streams, syntax, options, static)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(sizes))
    return sizes
