"""Run the job from its start to its end: lock its checkpoint, and load its code while Spark starts."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from streaming.driver import session
from streaming.errors import JobError, ProcessLost, SparkFailed, StorageFailed
from streaming.process import checkpoint
from streaming.process.supervision import Past

if TYPE_CHECKING:
    from config.model import Settings
    from streaming.monitoring.monitor import Monitor

T = TypeVar("T")

Opens = Callable[[Path], AbstractContextManager[SparkSession]]  # a session, given a directory for temporary files
LACKING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOENT)  # of a disk


def run(
    settings: Settings,
    opens: Opens,
    stop: threading.Event,
    lineage: str,
    past: Past | None = None,
    running: Callable[[Monitor], None] = lambda monitor: None,
) -> None:
    """Run until `stop` is set and the current batch is done. Raises JobError, or the error that broke the query.

    `opens` opens the session (`session.own`, `session.submitted`, `session.borrowed`), in a thread. `past` is the
    history from a supervisor; None without one. Jobs of one `lineage` follow each other, each because the last one
    ended: if another job took over meanwhile, it keeps the checkpoint. `running` is called once, when the job processes
    batches.
    """
    location = settings.query.checkpoint
    began = time.monotonic()
    try:
        with (
            checkpoint.opened(location, settings.query.name),
            checkpoint.scratch(location) as scratch,
            beside(opens(scratch)) as spark,
        ):
            from streaming.driver import job  # its imports take a second, in which Spark's JVM starts

            job.Start(
                settings=settings,
                session=spark,
                stop=stop,
                lineage=lineage,
                past=past,
                running=running,
                spark_checkpoint=checkpoint.spark(location, scratch),
                scratch=scratch,
                began=began,
            ).run()
    except BrokenExecutor as error:
        raise ProcessLost(f"a process that reads subscriptions has ended: {error}") from error
    except (Py4JError, ConnectionError) as error:
        raise SparkFailed(f"Spark's JVM has ended: {error}") from error
    except OSError as error:
        if error.errno not in LACKING and not checkpoint.obstacle(settings.query.checkpoint):
            raise
        raise StorageFailed(checkpoint.failure(error, settings.query.checkpoint)) from error
    except JobError:
        raise
    except Exception as error:  # PySpark says the end of its JVM in many ways
        if (code := session.exit_code(error)) is None:
            raise
        raise SparkFailed(f"Spark's JVM has ended (exit code {code}): {error}") from error


@contextmanager
def beside(context: AbstractContextManager[T]) -> Iterator[AbstractContextManager[T]]:
    """Enter a context in a thread. Gives a context of the same value, which waits for it; both end together.

    If nobody enters that one, the other ends all the same, once it is entered.
    """
    with ThreadPoolExecutor(1) as pool, ExitStack() as entered:
        entering = pool.submit(entered.enter_context, context)

        @contextmanager
        def waited() -> Iterator[T]:
            value = entering.result()
            with entered:
                yield value

        try:
            yield waited()
        finally:
            entering.exception()  # wait for it
