"""The parent of Spark's Python workers: loads the matching library once, so that every worker it forks starts warm.

Spark starts this module in place of pyspark.daemon (`spark.python.daemon.module`).
"""

import streaming.matching  # noqa: F401  the import is all it is about
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
