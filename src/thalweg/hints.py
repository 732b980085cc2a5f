"""Hints for messages: what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "prov": "http://www.w3.org/ns/prov#",
    "sosa": "http://www.w3.org/ns/sosa/",
    "ssn": "http://www.w3.org/ns/ssn/",
    "time": "http://www.w3.org/2006/time#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dct": "http://purl.org/dc/terms/",
    "dcterms": "http://purl.org/dc/terms/",
    "schema": "http://schema.org/",
    "geo": "http://www.opengis.net/ont/geosparql#",
    "wgs84": "http://www.w3.org/2003/01/geo/wgs84_pos#",
    "qudt": "http://qudt.org/schema/qudt/",
    "saref": "https://saref.etsi.org/core/",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "dbo": "http://dbpedia.org/ontology/",
    "dbr": "http://dbpedia.org/resource/",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
}
"""Prefixes that have one usual meaning."""


def meant(written: str, known: Iterable[str], cutoff: float = 0.7) -> str | None:
    """Which of some names a misspelt one is probably meant to be, whatever the case of its letters.

    >>> meant("OPTINAL", ["FILTER", "OPTIONAL"]), meant("x", ["FILTER"])
    ('OPTIONAL', None)
    """
    by_upper = {name.upper(): name for name in known}
    near = get_close_matches(written.upper(), by_upper, n=1, cutoff=cutoff)
    return by_upper[near[0]] if near else None


def did_you_mean(written: str, known: Iterable[str]) -> str:
    """The end of a sentence that suggests a name; empty where none is near.

    >>> did_you_mean("RAGNE", ["RANGE", "NOW"])
    '; did you mean RANGE?'
    """
    found = meant(written, known)
    return f"; did you mean {found}?" if found else ""


def full_iri(name: str) -> str | None:
    """The IRI of a prefixed name whose prefix has one usual meaning.

    >>> full_iri("prov:generatedAtTime"), full_iri("http://ex/a")
    ('http://www.w3.org/ns/prov#generatedAtTime', None)
    """
    prefix, colon, local = name.partition(":")
    return PREFIXES[prefix] + local if colon and prefix in PREFIXES else None
