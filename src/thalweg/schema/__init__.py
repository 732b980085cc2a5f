"""Schemas and entailment: what follows from triples by the axioms of an ontology.

- `schema_of` reads a schema (`Schema`) from a path or a text, under some rules;
- `close_triples` and `close_columns` are the closure of a whole graph;
- `Network` is the epsilon network of a schema, reduced to what patterns can see; `Expansion` runs it on ids.
"""

from thalweg.schema.axioms import Ignored, Link, Schema, schema_of
from thalweg.schema.closing import close_columns, close_triples
from thalweg.schema.expansion import Expansion
from thalweg.schema.network import EVERYTHING, Entry, Form, Network
from thalweg.schema.rules import DEFAULT, RULES, TRANSITIVE, rules_of

__all__ = [
    "DEFAULT",
    "EVERYTHING",
    "RULES",
    "TRANSITIVE",
    "Entry",
    "Expansion",
    "Form",
    "Ignored",
    "Link",
    "Network",
    "Schema",
    "close_columns",
    "close_triples",
    "rules_of",
    "schema_of",
]
