"""Alarms of a small grid: a streaming table that a continuous query fills, and a view over it."""

from __future__ import annotations

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

import thalweg.spark as tw

STREAM = "http://example.org/readings"
QUERY = f"""
PREFIX ex: <http://example.org/>
SELECT ?feeder ?meter
FROM STREAM <{STREAM}> [RANGE 10s]
WHERE {{ ?meter ex:alarm ?what . ?meter ex:feeder ?feeder }}
"""
DATA = Path(__file__).parents[1] / "data"

# Made here and not in the functions below: a pipeline does not let those look at a frame, and checks look at it.
spark = SparkSession.active()
changes = tw.run(tw.read(spark, str(DATA), stream=STREAM), QUERY)
table = tw.columns(changes, {"feeder": "string", "meter": "string"})


@dp.table
def alarms() -> DataFrame:
    """How the set of alarming meters changes."""
    return table


@dp.materialized_view
def feeders() -> DataFrame:
    """How often meters of each feeder began to alarm."""
    return spark.read.table("alarms").where("op = '+'").groupBy("feeder").count()
