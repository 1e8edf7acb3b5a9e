"""The parent of Spark's Python workers: loads once what they need, so that every worker it forks starts warm.

Spark starts this module in place of pyspark.daemon (`spark.python.daemon.module`). A worker collects garbage after
every task, and with numba loaded that took 100 ms, half of its time. What is loaded here is frozen out of it.
"""

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import streaming.matching  # noqa: F401

if __name__ == "__main__":
    gc.freeze()
    manager()
