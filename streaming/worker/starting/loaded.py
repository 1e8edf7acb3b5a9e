"""Load the code of Spark's Python workers, by the import of this module, and freeze it out of garbage collection.

A worker collects garbage after every task, and with numba loaded that took 100 ms, half of its time.
"""

from __future__ import annotations

import gc

import pyspark.daemon
import pyspark.worker  # noqa: F401

import streaming.worker.matching  # noqa: F401
from streaming.publishing import warm_up as publishing
from streaming.reading import warm_up as reading

publishing.compile()
reading.compile()
gc.freeze()
