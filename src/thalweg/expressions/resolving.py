"""Relative IRIs against a base: RFC 3986, section 5.2."""

from __future__ import annotations

import re
from typing import NamedTuple

_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


class _Parts(NamedTuple):
    scheme: str | None
    authority: str | None
    path: str
    query: str | None
    fragment: str | None


def resolved(base: str, reference: str) -> str:
    """The IRI that a reference stands for.

    >>> resolved("http://a/b/c/d;p?q", "../g"), resolved("http://a/b/c/d;p?q", "?y")
    ('http://a/b/g', 'http://a/b/c/d;p?y')
    """
    of, new = _split(base), _split(reference)
    if new.scheme is not None:
        made = new._replace(path=_without_dots(new.path))
    elif new.authority is not None:
        made = new._replace(scheme=of.scheme, path=_without_dots(new.path))
    elif not new.path:
        query = of.query if new.query is None else new.query
        made = of._replace(query=query, fragment=new.fragment)
    else:
        path = new.path if new.path.startswith("/") else _merged(of, new.path)
        made = new._replace(scheme=of.scheme, authority=of.authority, path=_without_dots(path))
    return "".join(
        (
            f"{made.scheme}:" if made.scheme is not None else "",
            f"//{made.authority}" if made.authority is not None else "",
            made.path,
            f"?{made.query}" if made.query is not None else "",
            f"#{made.fragment}" if made.fragment is not None else "",
        )
    )


def _split(iri: str) -> _Parts:
    match = _PARTS.fullmatch(iri)
    assert match is not None  # the expression matches every text
    scheme, authority, path, query, fragment = match.groups()
    return _Parts(scheme, authority, path, query, fragment)


def _merged(base: _Parts, path: str) -> str:
    if base.authority is not None and not base.path:
        return f"/{path}"
    return base.path[: base.path.rfind("/") + 1] + path


def _without_dots(path: str) -> str:
    out: list[str] = []
    segments = path.split("/")
    for segment in segments[:-1]:
        if segment == "..":
            if len(out) > 1 or (out and out[0]):
                out.pop()
        elif segment != ".":
            out.append(segment)
    last = segments[-1]
    if last == "..":
        if len(out) > 1 or (out and out[0]):
            out.pop()
        last = ""
    return "/".join([*out, "" if last == "." else last])
