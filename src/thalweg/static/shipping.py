"""Static data in binary files, as other processes and machines open them: by name, checked by what the header says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from thalweg.errors import DataError
from thalweg.static.data import Part, StaticData
from thalweg.static.document import Document
from thalweg.static.files import BrokenStaticFileError, map_document, stamp_of, write_document

SUFFIX = ".twstatic"


@dataclass(frozen=True)
class StaticFile:
    """A document in a binary file: where it was written, and the digest of its header."""

    path: str
    stamp: str
    source: str
    """What the document was read from."""

    def opened(self, folders: Sequence[Path] = ()) -> Document:
        """The document, mapped: from one of some folders, else from where it was written."""
        places = [folder / Path(self.path).name for folder in folders]
        place = next((found for found in (*places, Path(self.path)) if found.exists()), None)
        if place is None:
            raise DataError(
                f"the static data of {self.source} are not on this machine: {Path(self.path).name} is neither among "
                f"the files that Spark has sent here nor at {self.path}"
            )
        return _mapped(str(place), self.stamp, self.source)


@lru_cache(maxsize=16)
def _mapped(path: str, stamp: str, source: str) -> Document:
    """A mapped document: one for each process, all of its bytes checked once."""
    try:
        found = stamp_of(Path(path))
        if found == stamp:
            return map_document(Path(path))[0]
        reason = "the file was changed since the run began: start it again"
    except BrokenStaticFileError as error:
        reason = f"the file is damaged ({error}): start the run again"
    raise DataError(f"the static data of {source} cannot be read from {path}: {reason}")


@dataclass(frozen=True)
class StaticFiles:
    """Static data by their files. It is small, whatever they hold: a plan has it, and who needs the data opens them."""

    files: tuple[StaticFile, ...] = ()
    graphs: tuple[tuple[str, tuple[tuple[int, str, int], ...]], ...] = ()
    """By name: the parts of a graph, each with the place of its file, the graph in that, and a scope."""
    loads: int = 0
    fingerprint: str = ""
    """That of the data."""

    @classmethod
    def of(cls, data: StaticData, folder: Path, *, copied: bool = False) -> StaticFiles:
        """The files of static data: documents that have one keep it, unless `copied`; others are written to a folder.

        Files in the folder are named by what they hold, so that two with one name are equal.
        """
        files: dict[int, StaticFile] = {}
        graphs = []
        for name, parts in data.parts():
            for part in parts:
                document = part.document
                if id(document) not in files:
                    files[id(document)] = _filed(document, folder, copied=copied)
            places = list(files)
            graphs.append(
                (name, tuple((places.index(id(part.document)), part.graph, part.scope) for part in parts))
            )
        return cls(tuple(files.values()), tuple(graphs), data.loads, data.fingerprint)

    def __bool__(self) -> bool:
        return bool(self.graphs)

    def opened(self, folders: Sequence[Path] = ()) -> StaticData:
        """The data, mapped; the files are looked for in some folders, and then where they were written."""
        documents = [file.opened(folders) for file in self.files]
        graphs = {
            name: [Part(documents[place], graph, scope) for place, graph, scope in parts]
            for name, parts in self.graphs
        }
        return StaticData.of_parts(graphs, self.loads)


def _filed(document: Document, folder: Path, *, copied: bool) -> StaticFile:
    if document.file is not None and not copied:
        return StaticFile(str(document.file.resolve()), stamp_of(document.file), document.source)
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{document.digest}-{os.getpid()}{SUFFIX}"
    if document.file is not None:
        shutil.copyfile(document.file, draft)
    else:
        write_document(document, draft)
    stamp = stamp_of(draft)
    path = folder / f"{stamp}{SUFFIX}"
    draft.replace(path)
    return StaticFile(str(path.resolve()), stamp, document.source)
