"""Contexts of JSON-LD documents, which are never loaded from the network: files of a folder take their place.

The file of a context is its IRI without the scheme, with each character but letters, digits, `.`, `-` and `_` replaced
by `_`, and `.jsonld` or `.json` at the end: `https://schema.org/docs/jsonldcontext.jsonld` is
`schema.org_docs_jsonldcontext.jsonld`, and `https://schema.org/` is `schema.org_.jsonld`.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any
from urllib.parse import urljoin

_DEPTH = 32
"""Contexts that refer to contexts."""


class MissingContextError(ValueError):
    """A context that a document refers to and that is not in the folder."""


def file_of(iri: str) -> str:
    """The name of the file of a context, without its last suffix.

    >>> file_of("https://schema.org/"), file_of("http://ex.org/c/sensor.jsonld")
    ('schema.org_', 'ex.org_c_sensor')
    """
    name = re.sub(r"^[A-Za-z][A-Za-z0-9+.\-]*:/*", "", iri)
    name = re.sub(r"[^A-Za-z0-9._\-]", "_", name)
    return re.sub(r"\.(jsonld|json)$", "", name)


def with_contexts(text: bytes, folder: str | None) -> bytes:
    """A document in which references to contexts are replaced by them; as it is where it has none."""
    if b"@context" not in text:
        return text
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text  # the parser says what is wrong, and where
    try:
        whole, changed = _resolved(document, folder, (), "")
    except RecursionError:
        return text
    return json.dumps(whole, ensure_ascii=False).encode() if changed else text


def _resolved(node: Any, folder: str | None, above: tuple[str, ...], base: str) -> tuple[Any, bool]:
    """A value with its contexts in it, and whether any was put in."""
    if isinstance(node, list):
        parts = [_resolved(one, folder, above, base) for one in node]
        return [value for value, _ in parts], any(changed for _, changed in parts)
    if not isinstance(node, dict):
        return node, False
    changed = False
    whole: dict[str, Any] = {}
    for key, value in node.items():
        if key == "@context":
            value, put = _context(value, folder, above, base)
        else:
            value, put = _resolved(value, folder, above, base)
        whole[key] = value
        changed |= put
    return whole, changed


def _context(value: Any, folder: str | None, above: tuple[str, ...], base: str) -> tuple[Any, bool]:
    if isinstance(value, str):
        return _loaded(urljoin(base, value) if base else value, folder, above), True
    if isinstance(value, list):
        parts = [_context(one, folder, above, base) for one in value]
        flat: list[Any] = []
        for one, put in parts:
            flat.extend(one if put and isinstance(one, list) else [one])
        return flat, any(put for _, put in parts)
    return _resolved(value, folder, above, base)


def _loaded(iri: str, folder: str | None, above: tuple[str, ...]) -> Any:
    """The context of an IRI, from its file."""
    if iri in above or len(above) >= _DEPTH:
        raise MissingContextError(f"the context {iri} refers to itself")
    if folder is None:
        raise MissingContextError(
            f"the context {iri} is not loaded from the network: give the folder that has it (--contexts)"
        )
    names = [file_of(iri) + suffix for suffix in (".jsonld", ".json", "")]
    path = next((path for name in names if os.path.isfile(path := os.path.join(folder, name))), None)
    if path is None:
        raise MissingContextError(f"the context {iri} is not in {folder}: there is no file {names[0]}")
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read())
    except (OSError, ValueError, RecursionError) as wrong:
        raise MissingContextError(f"the context {iri} cannot be read from {path}: {wrong}") from None
    if not isinstance(document, dict) or "@context" not in document:
        raise MissingContextError(f"the file {path} of the context {iri} has no @context")
    return _context(document["@context"], folder, (*above, iri), iri)[0]
