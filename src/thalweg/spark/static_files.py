"""Static data on Spark: binary files that the workers of a machine map, sent there once or read where they are."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from thalweg.static.data import StaticData
from thalweg.static.shipping import StaticFiles


def sent(data: StaticData, spark: SparkSession) -> StaticFiles:
    """The files of static data, sent to all machines of a session; a local Spark reads them where they are written."""
    folder = Path(tempfile.mkdtemp(prefix="thalweg-static-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if isinstance(spark, SparkSession) and spark.sparkContext.master.startswith("local["):
        return StaticFiles.of(data, folder)
    files = StaticFiles.of(data, folder, copied=True)
    spark.addArtifacts(*(file.path for file in files.files), file=True)
    return files


def sent_folders() -> list[Path]:
    """The folders of the files that Spark has sent to this machine: in its workers, and in processes of these."""
    return [Path(SparkFiles.getRootDirectory())] if SparkFiles._is_running_on_worker else []
