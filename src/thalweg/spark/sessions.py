"""A local Spark session that suits the engine: quiet, Arrow on, RocksDB with a changelog for state."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from thalweg.errors import UsageError
from thalweg.spark.quiet import without_log_noise
from thalweg.spark.source import register

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
PARTITIONS = "spark.sql.shuffle.partitions"
STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"
_SPARKS_OWN = 200
_MOST_SHARDS = 16
JAVA_NEEDED = 17
_LOGGING = Path(__file__).with_name("log4j2.properties")
# Java plans, and hands packed chunks and rows on: its second compiler would take more of the cores, for minutes, than
# it spares, but for what runs very often; so would collectors with threads of their own. Every file of a checkpoint
# starts a process.
_JVM = (
    "-XX:Tier4InvocationThreshold=30000 -XX:Tier4MinInvocationThreshold=10000 -XX:Tier4CompileThreshold=60000 "
    "-XX:Tier4BackEdgeThreshold=200000 -XX:+UseSerialGC -XX:MetaspaceSize=256m "
    "-Djdk.lang.Process.launchMechanism=VFORK"
)
_INSTALL = (
    "install it (Debian, Ubuntu: openjdk-17-jre-headless; Fedora: java-21-openjdk-headless; "
    "macOS: brew install openjdk@17) and put it on PATH or set JAVA_HOME"
)


def java_version(text: str) -> int | None:
    """The major version in what `java -version` prints.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_392"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None


def require_java() -> None:
    """Refuse, in one sentence, to start Spark without a Java that can run it."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise UsageError(f"Spark needs Java {JAVA_NEEDED} or newer, and there is none: {_INSTALL}")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as failure:
        raise UsageError(f"Spark needs Java, and {java} cannot be run ({failure}): {_INSTALL}") from None
    version = java_version(done.stderr + done.stdout)
    if version is not None and version < JAVA_NEEDED:
        raise UsageError(f"Spark needs Java {JAVA_NEEDED} or newer, and {java} is Java {version}: {_INSTALL}")


def session(
    app: str = "thalweg", cores: int | None = None, shards: int | None = None, **conf: str
) -> SparkSession:
    """A local Spark session for continuous queries, or the running one.

    It takes up to 8 `cores` of this machine, and spreads queries over as many `shards`, unless given.
    `conf` adds or replaces Spark settings; write `__` for the dots: `spark__driver__memory="4g"`.
    """
    require_java()
    cores = cores or cores_here()
    # Workers must be this very interpreter: Spark would take whatever python3 is first on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = {
        # A task that fails is tried again, as on a cluster: its worker or engine process may have been killed.
        "spark.master": f"local[{cores},4]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {_JVM}",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.python.daemon.module": "thalweg.spark.daemon",
        "spark.sql.session.timeZone": "UTC",
        PARTITIONS: str(shards or cores),
        "spark.sql.adaptive.enabled": "false",
        # Chunks are compressed already.
        "spark.shuffle.compress": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.metricsEnabled": "false",
        PROVIDER: ROCKSDB,
        CHANGELOG: "true",
    }
    settings |= {key.replace("__", "."): value for key, value in conf.items()}
    builder = SparkSession.builder.appName(app)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with without_log_noise():
        _start_java({"spark.app.name": app, **settings})
        spark = builder.getOrCreate()
    register(spark)
    return spark


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Java, unless it runs, in a process group of its own.

    A signal to our group, as Ctrl-C sends it or a supervisor, would end Java and the workers in the middle of a batch.
    This process gets it and ends them when the batch is done. If it is killed, Java ends as its input is closed.
    """
    if SparkContext._gateway is None:
        conf = SparkConf().setAll(list(settings.items()))
        gateway = launch_gateway(conf, popen_kwargs={"process_group": 0})
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def cores_here() -> int:
    """How many cores a local session takes, and over how many shards it spreads a query, unless given."""
    return min(os.cpu_count() or 1, 8)


def usual_shards(spark: SparkSession) -> int:
    """Over how many shards a query is spread in a session, unless given.

    As many as its shuffles have partitions; where nobody has chosen these, as a local Spark has cores.
    """
    partitions = int(spark.conf.get(PARTITIONS, None) or _SPARKS_OWN)
    if partitions == _SPARKS_OWN and isinstance(spark, SparkSession):  # not of Connect
        context = spark.sparkContext
        if context.master.startswith("local["):
            partitions = context.defaultParallelism
    return min(partitions, _MOST_SHARDS)


def require_partitions(spark: SparkSession, shards: int) -> None:
    """Have the state of queries that are started from now on in as many partitions as there are shards.

    A partition without a shard is a task with a state store of its own in every batch, and nothing to do. Shuffles
    of other queries keep their number.
    """
    found = int(spark.conf.get(STATE_PARTITIONS, None) or spark.conf.get(PARTITIONS, None) or _SPARKS_OWN)
    if found == shards:
        return
    try:
        spark.conf.set(STATE_PARTITIONS, str(shards))
    except Exception:  # as in the functions of a pipeline, which change no settings
        warnings.warn(
            f"the state would have {found} partitions, and the query has {shards}: set {PARTITIONS} to {shards}",
            stacklevel=3,
        )


def require_rocksdb(spark: SparkSession) -> None:
    """Set the state store that `transformWithState` needs, unless the session chose another one."""
    chosen = spark.conf.get(PROVIDER, None)
    if chosen is None or chosen.endswith("HDFSBackedStateStoreProvider"):
        spark.conf.set(PROVIDER, ROCKSDB)
        spark.conf.set(CHANGELOG, "true")
    elif "RocksDB" not in chosen:
        raise UsageError(
            f"Spark keeps the engine's state in RocksDB: set {PROVIDER} to {ROCKSDB}, not {chosen}"
        )
