"""The Spark session, with the settings that make small batches fast."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import InheritableThread, SparkConf, SparkContext
from pyspark.errors import AnalysisException, PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from streaming import secret_files
from streaming.errors import JobError, SparkFailed
from streaming.log import logger
from streaming.process import code_archive
from streaming.process.class_archive import ClassArchive
from streaming.process.jars import FETCH
from streaming.worker.executor import on_cluster
from streaming.worker.starting.preloaded import ADDRESS, CODE

if TYPE_CHECKING:
    from config.model import Settings

log = logger("sluice.job")

START_ATTEMPTS = 3  # at starting the JVM
# In names: Spark's own default, and how stores call their keys.
SECRET = re.compile(r"secret|password|token|credential|private|access[.]?key|[.]key\b", re.IGNORECASE)
# Spark's log of an idle query has several lines for each time that it fetches offsets, 50 times a second.
QUERY = "org.apache.spark.sql.execution.streaming"
# Hadoop's local files start a process for each one that is written, and warn with a stack of the query's end within it.
FILES = "org.apache.hadoop.util.Shell"
SCHEDULER = "org.apache.spark.scheduler.DAGScheduler"  # it warns of each command above a megabyte
EXIT_TIMEOUT_S = 60.0  # of a JVM that archives its classes
REAPED_S = 1.0  # so long after its last connection broke, a process that has ended may not look so
LOG = CODE / "config" / "log4j2.properties"

TUNING = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",  # in a session of our own: half a second of CPU time at a start
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "5ms",
    # 40 ms off every small Python stage.
    "spark.python.unix.domain.socket.enabled": "true",
    # With it the workers of DataFrames would not be those of RDDs, and each would load everything for itself.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # Otherwise every DataFrame call walks the Python stack.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # PySpark sends a larger command, as with many deleted positions, in a broadcast whose file it never deletes.
    "spark.broadcast.UDFCompressionThreshold": "1g",
    # Arrow hands a worker up to this many rows at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # With any other value Spark works out the size of an Arrow batch after every row, and that of a column of lists,
    # such as the headers, by going through all rows before: 10,000 rows took 20 times as long.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # A batch's plan is a source and one Python stage: to compile it, or to adapt it on the way, costs more than
    # it saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Workers are forked from a process that has loaded the matching library already.
    "spark.python.daemon.module": "streaming.worker.daemon",
    # Our own transaction decides what was done, so a batch is never retried within Spark.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    # 35 to 65 ms off each write to Spark's checkpoint, which is local. It gives up Spark's check against two drivers in
    # one directory: our lock and the fencing of the older producer do that.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Spark keeps this much of the past for its UI, by default 1,000 of each, which it goes through to drop the oldest.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.sql.ui.retainedExecutions": "50",
}
# On one machine the driver is all there is. The quick compiler alone: what the slow one gains, it does not get back
# from a machine that it shares with the workers. It compiles a method after a tenth of the usual calls: planning and
# scheduling run once a batch, so much of that code was interpreted for minutes. What it compiles does not fit into the
# 48 MB that a JVM with this compiler alone would have.
LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Without Hadoop's native library its own local file system starts a process (chmod) for each file it writes. This
    # one does not: writing Spark's two logs takes 8 ms of a batch instead of 20.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    # A JVM without memory must not linger: the job starts again, and looks at batches before it takes them.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:CompileThresholdScaling=0.1 -XX:ReservedCodeCacheSize=128m "
        "-XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError"
    ),
}


# What it has to unpack and load is ours alone (`code_archive`): not what its host has lying about.
CLUSTER = {
    # Relative to where an executor works, which is where it unpacks archives.
    "spark.executorEnv.PYTHONPATH": code_archive.NAME,
    # Kernels are cached beside their sources, so they go with them. Any other place knows them by their path, which is
    # another in every executor: nothing would be found, and nothing deleted.
    "spark.executorEnv.NUMBA_CACHE_DIR": "",
    # Spark would keep each file that executors fetch, in a second copy, until the application ends.
    "spark.files.useFetchCache": "false",
    # Spark looks so often for executors that have been silent for `spark.network.timeout`: by default every minute, in
    # which a batch waits for one that hangs.
    "spark.network.timeoutInterval": "10s",
}


def exit_code(error: BaseException) -> int | None:
    """The exit code of Spark's JVM, negative for a signal; None if it runs or was never started. `error` is what its
    end raised."""
    process = _jvm(frame for frame, _ in traceback.walk_tb(error.__traceback__))
    if process is None:
        return None
    try:
        code = int(process.wait(REAPED_S))
    except subprocess.TimeoutExpired:
        return None
    process.stdin.close()  # the pipe by which the JVM would learn of our end; PySpark leaves it open
    return code


def end_jvm() -> None:
    """End the JVM that this process has started, or that a thread is starting; nothing if there is none yet."""
    process = _jvm(frame for top in sys._current_frames().values() for frame, _ in traceback.walk_stack(top))
    if process is not None:
        process.kill()  # if told to end, it might first write its class archive


def _jvm(frames: Iterable[FrameType]) -> Any:
    """The process of the JVM that we have started: while PySpark waits for it to come up, only that frame has it."""
    waiting = (frame for frame in frames if frame.f_code is launch_gateway.__code__)
    return next((frame.f_locals.get("proc") for frame in waiting), getattr(SparkContext._gateway, "proc", None))


def _by_signal(code: int) -> bool:
    """Whether a signal ended the process. Shells, for which spark-submit is written, add 128 to its number."""
    return code < 0 or code > 128


def _created(config: Mapping[str, str], *, starts_workers: bool = False) -> SparkSession:
    """Create the session, with several tries. With `starts_workers`, Python workers start meanwhile. If its own helpers
    are killed, spark-submit ends as it does for a wrong option, but a wrong option fails every time.

    A job calls it in a thread: in the main one Spark would replace the handler of SIGINT by one that cancels jobs."""
    shown = SparkConf(loadDefaults=False).setAll([item for item in config.items() if not SECRET.search(item[0])])
    for attempt in range(START_ATTEMPTS):
        try:
            SparkContext._ensure_initialized(conf=shown)  # the JVM's arguments, which every user of the host can see
            context = SparkContext.getOrCreate(SparkConf().setAll(list(config.items())))
            _expect_the_end(context)
            if starts_workers:
                _start_workers(context)
            return SparkSession.builder.config(map=dict(config)).getOrCreate()
        except PySparkRuntimeError as error:
            if (code := exit_code(error)) is None:
                raise
            if _by_signal(code):
                raise SparkFailed(f"Spark's JVM was killed while it started (exit code {code})") from error
            log.warning("jvm_start_failed", exit_code=code)
        time.sleep(1.0 + attempt)
    raise JobError(
        f"Spark's JVM failed to start {START_ATTEMPTS} times, with exit code {code}; standard error shows the reason. "
        "Check JAVA_HOME (Java 17 or newer) and the driver options in spark.options."
    )


def _expect_the_end(context: SparkContext) -> None:
    """Let the server of Spark's accumulators end without a traceback when the JVM ends, or closes its connection first.
    A job has no accumulators."""
    context._accumulatorServer.handle_error = lambda request, client_address: None  # type: ignore[method-assign]


def _start_workers(context: SparkContext) -> None:
    """Start the parent of the Python workers, which loads code for a second, while Spark makes the session."""

    def run() -> None:
        with suppress(Exception):  # of a context that is stopped meanwhile; without workers the warm-up fails
            context.setJobDescription("start of the workers")
            context.parallelize([0], 1).count()

    InheritableThread(target=run, name="sluice-workers", daemon=True).start()


@contextmanager
def own(settings: Settings, jars: Path, scratch: Path, preloaded: str = "") -> Iterator[SparkSession]:
    """A session of our own, in a JVM of our own, as `start` makes it; it is stopped at the end."""
    options = _options(settings)
    with _stopped(start(settings.query.name, settings.spark.master, options, jars, scratch, preloaded)) as session:
        yield session


@contextmanager
def submitted(settings: Settings, scratch: Path) -> Iterator[SparkSession]:
    """The session for the JVM that spark-submit has started; it is stopped at the end.

    What spark-submit was given, and its files of properties, win over [spark.options], and those over our defaults.
    Raises JobError.
    """
    SparkContext._ensure_initialized()
    given = dict(SparkConf().getAll())
    if given.get("spark.app.name") == Path(sys.argv[0]).name:  # spark-submit's, without --name
        del given["spark.app.name"]
    name = {"spark.app.name": settings.query.name}
    config = {**defaults(given["spark.master"]), **name, **_options(settings), **given}
    _check(config)
    with _stopped(_created(config)) as session:
        _check_source(session)
        _quiet(session, QUERY, FILES, SCHEDULER)
        if "spark.log.level" not in given:  # INFO, Spark's default, is 40 lines a batch
            session.sparkContext.setLogLevel("WARN")
        yield session


@contextmanager
def borrowed(spark: SparkSession, scratch: Path) -> Iterator[SparkSession]:
    """A session beside that of another program, with its context and with settings of its own; only our queries are
    stopped at the end. Raises JobError if the context has settings with which a job cannot work."""
    given = dict(spark.sparkContext.getConf().getAll())
    _check(given)
    _check_source(spark)
    session = spark.newSession()
    _quiet(session, QUERY)
    for name, value in TUNING.items():
        if name not in given and session.conf.isModifiable(name):
            session.conf.set(name, value)
    try:
        yield session
    finally:
        with suppress(Py4JError, ConnectionError):
            for query in session.streams.active:
                query.stop()


def _options(settings: Settings) -> dict[str, str]:
    return secret_files.read("spark.options", settings.spark.options)


def defaults(master: str = "local") -> dict[str, str]:
    """Our settings for a session that somebody else starts, on this master. Those of the driver's JVM are not among
    them: it runs already. Nor is that of Spark's UI, which is theirs to switch."""
    tuning = {
        name: value for name, value in TUNING.items() if not name.startswith(("spark.driver.", "spark.ui.enabled"))
    }
    return {**tuning, **(CLUSTER if on_cluster(master) else {"spark.executorEnv.PYTHONPATH": str(CODE)})}


def read_text(location: str) -> str:
    """The text of a file in one of the file systems of the JVM that spark-submit has started. Raises JobError."""
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    try:
        path = jvm.org.apache.hadoop.fs.Path(location)
        hadoop = jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(jvm.org.apache.spark.SparkConf())
        file = path.getFileSystem(hadoop).open(path)
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(file, "UTF-8"))
        finally:
            file.close()
    except Py4JJavaError as error:
        raise JobError(f"{location}: cannot be read: {error.java_exception.toString()}") from error


def _check_source(spark: SparkSession) -> None:
    """Check that Spark has a Kafka connector. Raises JobError."""
    jvm: Any = spark._jvm
    try:
        sql: Any = spark._jsparkSession
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource("kafka", sql.sessionState().conf())
    except AnalysisException as error:
        connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise JobError(
            f"Spark has no Kafka connector: pass `--packages {connector}` to spark-submit, or set "
            f"`spark.jars.packages` = {connector!r} in a session of your own. Without a network, pass all files of "
            "jars/spark, separated by commas, by `--jars` or `spark.jars`"
        ) from error


@contextmanager
def _stopped(spark: SparkSession) -> Iterator[SparkSession]:
    try:
        yield spark
    finally:
        with suppress(Py4JError, ConnectionError):  # of a JVM that has ended
            spark.stop()


def _quiet(spark: SparkSession, *loggers: str) -> None:
    log4j: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # there is a JVM
    for name in loggers:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.ERROR)


def _check(config: Mapping[str, str]) -> None:
    """Check that a job can work with the settings of a session. Raises JobError."""
    if config.get("spark.stage.maxConsecutiveAttempts") != "1":
        raise JobError(
            "spark.stage.maxConsecutiveAttempts must be 1, because tasks of a repeated stage would publish in "
            "addition to those of the first attempt (the job itself repeats uncommitted batches). A program that "
            "creates its own session passes it `streaming.spark_defaults()`"
        )
    if config.get("spark.speculation") == "true":
        raise JobError(
            "spark.speculation must be false, because only the first attempt of a task may publish; the job itself "
            "kills workers that hang"
        )
    if on_cluster(config["spark.master"]) and config.get("spark.task.maxFailures") != "1":
        raise JobError(
            "spark.task.maxFailures must be 1, because only the first attempt of a task may publish, and the errors of "
            "the others would hide why it failed. A program that creates its own session passes it "
            "`streaming.spark_defaults()`"
        )
    if on_cluster(config["spark.master"]) and config.get("spark.io.encryption.enabled") == "true":
        raise JobError(
            "spark.io.encryption.enabled must be false, because workers map the subscriptions from files that Spark "
            "would encrypt; encrypt the disks of spark.local.dir instead"
        )


def start(
    name: str, master: str, options: Mapping[str, str], jars: Path, scratch: Path, preloaded: str = ""
) -> SparkSession:
    """Start Spark. `options` are Spark's own and win over TUNING; `scratch` takes all temporary files of the driver;
    `preloaded` is the address of a process that has loaded the code of the workers.

    Raises SparkFailed if the JVM is killed meanwhile, and JobError if it ends by itself.
    """
    files = sorted(jars.glob("*.jar"))
    if not files:
        raise JobError(f"no jars in {jars}; run {FETCH}")
    local = not on_cluster(master)
    config = {
        **TUNING,
        **(LOCAL if local else CLUSTER),
        **({"spark.driver.extraClassPath": str(jars / "*")} if local else {"spark.jars": ",".join(map(str, files))}),
        **({"spark.executorEnv.PYTHONPATH": str(CODE)} if local else {}),
        "spark.driver.defaultJavaOptions": (
            f"-Djava.io.tmpdir={scratch} -Dlog4j2.configurationFile={LOG.as_uri()} "
            f"{' '.join(class_archive(jars).used_or_written()) if local else ''}"
        ),
        **({"spark.local.dir": str(scratch)} if local else {}),
        **({f"spark.executorEnv.{ADDRESS}": preloaded} if preloaded else {}),
        **options,
        "spark.master": master,
        "spark.app.name": name,
    }
    _check(config)
    # Spark takes these from nowhere else: the interpreter of the workers, and the options of a JVM that prints the
    # command of the one that stays.
    os.environ |= {
        "PYSPARK_PYTHON": options.get("spark.pyspark.python", sys.executable),
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    return _created(config, starts_workers=local)


def class_archive(jars: Path) -> ClassArchive:
    """The class archive of a local job's JVM."""
    return ClassArchive([jars, Path(_find_spark_home()) / "jars"])


def keep_class_archive(jars: Path) -> None:
    """End the JVM if it writes a class archive. Call after Spark was stopped in order.

    A JVM that somebody else started, as spark-submit does, is not ours to end.
    """
    gateway, archive = SparkContext._gateway, class_archive(jars)
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if gateway is None or process is None or not archive.written_by(process):
        return
    log.info("class_archive_writing", timeout_s=EXIT_TIMEOUT_S)
    began = time.monotonic()
    gateway.shutdown()
    assert process.stdin is not None
    process.stdin.close()  # it ends when this does
    try:
        process.wait(EXIT_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        log.warning("class_archive_failed", timeout_s=EXIT_TIMEOUT_S)
        return
    archive.keep()
    log.info("class_archive_written", duration_s=round(time.monotonic() - began, 1))
