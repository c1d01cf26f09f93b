"""Starts Spark with settings for a few large Python tasks, and explains its errors in one sentence.

NumPy does the work in Python workers, which read Parquet themselves. So the JVM needs little: a small heap, the fast
compiler, the serial collector, no user interface.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from zipfile import ZipFile

import staticfire
from staticfire.spark_analysis.engine.java import SparkError, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit sets it: the port at which its JVM listens
PACKED_PYTHON = "./environment/bin/python"
# Arrow's default pool frees pages and allocates them again, which costs a fifth more memory, and CPU time.
POOL = ("ARROW_DEFAULT_MEMORY_POOL", "system")
REACHABLE_S = 5.0  # for a master to accept a connection
LOG_SETTINGS = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where and how Spark runs."""

    # Also spark://host:port, yarn, k8s://..., and sc://host:port for Spark Connect.
    master: str = "local[*]"
    driver_memory_mb: int = 1024
    executor_memory_mb: int = 1024  # for the JVM; Python workers need more
    executor_cores: int | None = None
    spill: Path | None = None  # folder for spilled data; None: a temporary one
    environment: str | None = None  # a packed Python environment for the executors (--archives)
    log_level: str = "OFF"
    excludes: bool = False  # give no more tasks to executors whose tasks fail

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def is_connect(self) -> bool:
        return self.master.startswith("sc://")


@contextmanager
def spark_session(settings: Settings) -> Iterator[SparkSession]:
    """Yield a Spark session. Raises SparkError if it cannot be started.

    A process has only one JVM, so settings of its memory apply to the first session only.
    """
    _check_installed()
    scratch = Path(tempfile.mkdtemp(prefix="staticfire-spark-"))
    spark: SparkSession | None = None
    try:
        spark = _connect(settings) if settings.is_connect else _start(settings, scratch)
        yield spark
    finally:
        if spark is not None:
            _stop(spark)
        shutil.rmtree(scratch, ignore_errors=True)


def _check_installed() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise SparkError(
            "pyspark is not installed: pip install 'staticfire[spark]', or use --engine in-process"
        )


def _start(settings: Settings, scratch: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    if SUBMITTED in os.environ:
        return _submitted(settings, scratch)
    _check_reachable(settings.master)
    os.environ["JAVA_HOME"] = str(java_home(scratch))
    # Workers run the driver's Python (in a cluster: the same path on every host), or a packed one.
    os.environ["PYSPARK_PYTHON"] = PACKED_PYTHON if settings.environment else sys.executable
    os.environ.setdefault(*POOL)
    if settings.is_local or "127.0.0.1" in settings.master:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(settings.master).appName("staticfire")
    for name, value in options(settings, scratch).items():
        builder = builder.config(name, value)
    said = scratch / "stderr"
    try:
        with _stderr_to(said):
            spark = builder.getOrCreate()
    except Exception as error:  # pyspark, py4j and the operating system raise their own
        last = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        raise SparkError(
            f"Spark does not start: {explain(error)} {''.join(last)}".rstrip()
        ) from error
    spark.sparkContext.setLogLevel(settings.log_level)
    if not settings.is_local:
        spark.sparkContext.addPyFile(str(code_archive(scratch)))
    return spark


def _submitted(settings: Settings, scratch: Path) -> SparkSession:
    """Use the JVM of spark-submit, with its master and memory. Executors get our code."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("staticfire")
    for name, value in SQL_OPTIONS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(settings.log_level)
    spark.sparkContext.addPyFile(str(code_archive(scratch)))
    return spark


def _connect(settings: Settings) -> SparkSession:
    """Connect to a Spark Connect server, which has the JVM. Our code is sent to it as an artifact."""
    _check_reachable(settings.master)
    try:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote(settings.master).getOrCreate()
        for name, value in SQL_OPTIONS.items():
            spark.conf.set(name, value)
        with tempfile.TemporaryDirectory() as folder:
            spark.addArtifacts(str(code_archive(Path(folder))), pyfile=True)
    except ImportError as error:
        raise SparkError(f"Spark Connect needs more packages: {explain(error)}") from error
    except Exception as error:  # pyspark and gRPC raise their own
        raise SparkError(f"{settings.master} refuses: {explain(error)}") from error
    return spark


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect stderr to a file, since the JVM writes its error there as well, in a hundred lines."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


# A task has four attempts. Spark excludes a host only when three of its executors have failed the task.
EXCLUDING = {
    "spark.excludeOnFailure.enabled": "true",
    "spark.excludeOnFailure.task.maxTaskAttemptsPerNode": "3",
}
SQL_OPTIONS = {
    "spark.sql.session.timeZone": "UTC",
    # A result is one row, which may be large.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
}


def options(settings: Settings, scratch: Path) -> dict[str, str]:
    """Return the configuration of the session. Makes the files that it names in `scratch`."""
    log = scratch / "log4j2.properties"
    log.write_text(LOG_SETTINGS.format(level=settings.log_level), encoding="utf-8")
    spill = settings.spill or scratch / "spill"
    spill.mkdir(parents=True, exist_ok=True)
    root = str(Path(staticfire.__file__).parents[1])
    chosen = {
        **SQL_OPTIONS,
        "spark.driver.memory": f"{settings.driver_memory_mb}m",
        "spark.driver.extraJavaOptions": f"{JVM_OPTIONS} -Dlog4j2.configurationFile={log.as_uri()}",
        "spark.executor.memory": f"{settings.executor_memory_mb}m",
        "spark.executor.extraJavaOptions": JVM_OPTIONS,
        "spark.local.dir": str(spill),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.structuredLogging.enabled": "false",
        "spark.python.worker.reuse": "true",
        "spark.executorEnv.PYTHONPATH": root,
        f"spark.executorEnv.{POOL[0]}": POOL[1],
        "spark.task.maxFailures": "4",
    }
    if settings.is_local:
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if settings.environment is not None:
        chosen["spark.archives"] = f"{settings.environment}#environment"
    if settings.excludes and not settings.is_local:
        chosen |= EXCLUDING
    if settings.executor_cores is not None:
        chosen["spark.executor.cores"] = str(settings.executor_cores)
    return chosen


def code_archive(folder: Path) -> Path:
    """Write a ZIP of the packages that executors import: `staticfire.checkers` and `staticfire.spark_analysis`."""
    root = Path(staticfire.__file__).parent
    archive = folder / "staticfire-code.zip"
    with ZipFile(archive, "w") as target:
        target.write(root / "__init__.py", "staticfire/__init__.py")
        for package in ("checkers", "spark_analysis"):
            for path in sorted((root / package).rglob("*.py")):
                target.write(path, Path("staticfire", path.relative_to(root)))
    return archive


def _check_reachable(master: str) -> None:
    """Check the master. Raises SparkError within REACHABLE_S; Spark itself would retry for a minute."""
    if not master.startswith(("spark://", "sc://")):
        return
    where = urlsplit(master)
    try:
        host, port = where.hostname, where.port or (15002 if where.scheme == "sc" else 7077)
    except ValueError as error:
        raise SparkError(f"--master is {master!r}: {error}; expected spark://host:port") from error
    try:
        socket.create_connection((host or "", port), timeout=REACHABLE_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SparkError(f"the master {master} cannot be reached: {reason}") from error


def _stop(spark: SparkSession) -> None:
    with suppress(Exception):  # the JVM or the server may have ended, which was reported before
        spark.stop()


def explain(error: BaseException) -> str:
    """Extract the reason from an error of Spark, as one sentence."""
    text = str(error)
    for sign, sentence in KNOWN_ERRORS:
        if found := re.search(sign, text):
            return found.expand(sentence)
    if raised := re.search(RAISED, text):
        return raised[1][:300]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes[-1] if causes else lines[0] if lines else type(error).__name__)[:300]


# The error that a Python worker raised: the line after its traceback.
RAISED = r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)"
KNOWN_ERRORS = (
    (
        r"Python in worker has different version:? (\S+?),? than that in driver:? (\d+\.\d+)",
        r"the executors have Python \1 and the driver has \2; --packed sends them one",
    ),
    (
        r"ModuleNotFoundError: No module named '([^']+)'",
        r"the executors do not have the Python package \1; --packed sends them what they lack",
    ),
    (
        r'Cannot run program "([^"]+)"',
        r"the executors do not have \1, which is the Python of the driver; --packed sends them one",
    ),
    (r"No space left on device", "the disk for spilled data is full; choose another with --spill"),
    (r"JAVA_GATEWAY_EXITED", "Java ended at once; is it version 17 or newer?"),
    (r"All masters are unresponsive", "the master does not answer"),
    (r"stopped SparkContext", "it was stopped, as happens when the master does not answer"),
    (r"OutOfMemoryError", "the JVM is out of memory; give it more with --memory"),
    (r"ExecutorLostFailure", "executors died again and again; is their memory too small?"),
    (r"Python worker exited unexpectedly", "a Python worker died; was its memory too small?"),
)
