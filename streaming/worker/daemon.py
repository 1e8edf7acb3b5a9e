"""The parent of Spark's Python workers: it imports everything once, so that forked workers start warm.

Spark starts this module in place of pyspark.daemon (`spark.python.daemon.module`), and the driver starts it ahead with
`--preload` and the descriptor of a listening socket.
"""

from __future__ import annotations

import sys

from streaming.worker.executor import PRELOAD
from streaming.worker.starting import preloaded
from streaming.worker.starting.manager import manage

if __name__ == "__main__":
    if sys.argv[1] == PRELOAD:
        preloaded.serve(int(sys.argv[2]), manage)
    elif not preloaded.hand_over():
        manage()
