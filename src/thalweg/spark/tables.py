"""Results for sinks: variables as columns of their own with the types that are requested, and rows as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from thalweg.errors import UsageError
from thalweg.io.writers import ANSWER
from thalweg.spark.results import QUADS_SCHEMA, VARIABLES, pack_quads

TERM, STRING = "term", "string"
_FIXED = ("at", "op", "window", "event", "bindings")
# A literal's lexical form is between its quotes; an IRI between its brackets.
_LEXICAL = r'(?s)^"(.*)"(?:@[A-Za-z0-9-]+|\^\^<[^<>]*>)?$'
_IRI = r"^<(.*)>$"
# Spark's own default for JSON cuts off what is below a millisecond.
_TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def columns(results: DataFrame, variables: Sequence[str] | Mapping[str, str]) -> DataFrame:
    """The results of `run` with a column for each variable, instead of the map of bindings.

    A name alone, or the type `term`, gives the term as N-Triples. `string` gives IRIs and lexical forms bare; any other
    type of Spark (`long`, `double`, `boolean`, `timestamp`, `decimal(10, 2)`) is read from the lexical form. A value
    that its type does not allow is null; keep `bindings` beside it (`columns` leaves it where it is named) to see such.
    A name that no variable of the query has is refused.
    """
    wanted = variables if isinstance(variables, Mapping) else dict.fromkeys(variables, TERM)
    if "bindings" not in results.columns:
        raise UsageError(
            "columns are made of the results of thalweg.spark.run: there is no column 'bindings'"
        )
    if taken := [name for name in wanted if name in _FIXED and name != "bindings"]:
        raise UsageError(f"?{taken[0]} has the name of a column that is there: rename the variable")
    known = results.schema["bindings"].metadata.get(VARIABLES)
    if known is not None and (unknown := [name for name in wanted if name not in (*known, "bindings")]):
        there = ", ".join(f"?{name}" for name in known) or "none"
        raise UsageError(f"the query has no variable ?{unknown[0]}: there are {there}")
    made = [
        _typed(results["bindings"][name], kind).alias(name)
        for name, kind in wanted.items()
        if name != "bindings"
    ]
    kept = [name for name in results.columns if name != "bindings" or "bindings" in wanted]
    return results.select(*kept, *made)


def messages(results: DataFrame, batch: int) -> DataFrame:
    """The results of one batch (in `foreachBatch`) as messages: `key` and `value`, for Kafka or another queue.

    The value is the row as JSON, with the number of the batch. A queue may get a batch twice, when it was written but
    not yet noted as done. A batch that is run again has the same rows, and here the same keys: who reads takes the
    first message of each key, and has every row once.
    """
    value = F.to_json(F.struct(F.lit(batch).alias("batch"), *results.columns), _TIMES)
    # Rows may come in another order when a batch is run again. Equal rows are counted.
    equal = Window.partitionBy("value").orderBy("value")
    place = F.row_number().over(equal)
    key = F.concat_ws("-", F.lit(batch), F.sha2("value", 256), place)
    return results.select(value.alias("value")).select(key.alias("key"), "value")


def quads(results: DataFrame, stream: str = ANSWER) -> DataFrame:
    """The results of a CONSTRUCT as N-Quads: `at`, and `value` with the lines of a graph, its time before its triples.

    `value` suits text files (`select("value")`) and queues, and `events(..., format="nq")` or `format("rdf")` read it
    again. Graphs are called `stream#instant`, those of [NOW] as their events. Deletes cannot be written: a row with `-`
    stops the query with a sentence, so register it as ISTREAM or RSTREAM, or ask with [NOW].
    """
    if "bindings" not in results.columns:
        raise UsageError("quads are made of the results of thalweg.spark.run: there is no column 'bindings'")
    return results.mapInArrow(partial(pack_quads, stream), QUADS_SCHEMA)


def _typed(term: Column, kind: str) -> Column:
    if kind == TERM:
        return term
    if kind == STRING:
        iri = F.regexp_extract(term, _IRI, 1)
        return (
            F.when(term.startswith("<"), iri)
            .when(term.startswith('"'), _unescaped(_lexical(term)))
            .otherwise(term)
        )
    return F.when(term.startswith('"'), _lexical(term).try_cast(kind))


def _lexical(term: Column) -> Column:
    return F.regexp_extract(term, _LEXICAL, 1)


def _unescaped(text: Column) -> Column:
    # A canonical text has few escapes. The backslash itself is put aside first, so that what it hides stays hidden, as
    # NUL: no canonical text has control characters, and no string of XML Schema has this one.
    aside = "\x00"
    text = F.replace(text, F.lit("\\\\"), F.lit(aside))
    for escape, character in (
        ("\\n", "\n"),
        ("\\r", "\r"),
        ("\\t", "\t"),
        ('\\"', '"'),
        ("\\b", "\b"),
        ("\\f", "\f"),
    ):
        text = F.replace(text, F.lit(escape), F.lit(character))
    controls = text
    for code in (*range(1, 0x20), 0x7F):
        controls = F.replace(controls, F.lit(f"\\u{code:04X}"), F.lit(chr(code)))
    # Other control characters are rare: their escapes are looked for only where there is one.
    text = F.when(F.contains(text, F.lit("\\u")), controls).otherwise(text)
    return F.replace(text, F.lit(aside), F.lit("\\"))
