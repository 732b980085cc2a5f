"""Content negotiation: which media type of those that are offered a client likes best."""

from __future__ import annotations

from collections.abc import Sequence

SOLUTIONS = (
    "application/sparql-results+json",
    "application/json",
    "application/sparql-results+xml",
    "application/xml",
    "text/csv",
    "text/tab-separated-values",
)
GRAPHS = (
    "application/n-triples",
    "text/turtle",
    "application/rdf+xml",
    "application/ld+json",
    "application/xml",
    "application/json",
)


def negotiated(accept: str, offered: Sequence[str]) -> str | None:
    """The media type that a client likes best, the first of several; None where it likes none.

    >>> negotiated("text/csv;q=0.5, text/html", SOLUTIONS)
    'text/csv'
    >>> negotiated("application/*;q=0.1, */*", SOLUTIONS)
    'text/csv'
    """
    wishes: dict[str, float] = {}
    for part in accept.split(",") if accept.strip() else ["*/*"]:
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((one[2:] for one in parameters if one.startswith("q=")), "1")
        try:
            wishes[kind] = float(quality)
        except ValueError:
            continue
    best, most = None, 0.0
    for kind in offered:
        main = kind.partition("/")[0]
        # The wish that says most of this type counts, whatever others allow.
        found = next((wishes[one] for one in (kind, f"{main}/*", "*/*") if one in wishes), 0.0)
        if found > most:
            best, most = kind, found
    return best
