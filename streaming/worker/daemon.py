"""The parent of Spark's Python workers: it imports everything once, so that forked workers start warm.

Spark starts this module in place of pyspark.daemon (`spark.python.daemon.module`), and the driver starts it ahead with
`--preload` and the descriptor of a listening socket.
"""

from __future__ import annotations

import signal
import sys

from streaming.worker.executor import PRELOAD
from streaming.worker.starting import preloaded
from streaming.worker.starting.manager import manage

if __name__ == "__main__":
    if sys.argv[1] == PRELOAD:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which finishes its batch
        import streaming.worker.starting.loaded  # noqa: F401

        preloaded.serve(int(sys.argv[2]), manage)
    elif not preloaded.hand_over():
        manage()
