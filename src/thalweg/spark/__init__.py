"""Thalweg on Spark: the only home of pyspark.

>>> spark = session()  # doctest: +SKIP
>>> events = spark.readStream.format("rdf").option("stream", "http://ex/s").load("folder")  # doctest: +SKIP
>>> rows = run(events, "SELECT ?x FROM STREAM <http://ex/s> [RANGE 10s] WHERE { ?x ?p ?y }")  # doctest: +SKIP
"""

from thalweg.spark.run import read, run, run_files
from thalweg.spark.session import require_java, session
from thalweg.spark.source import register

__all__ = ["read", "register", "require_java", "run", "run_files", "session"]
