"""Load the code of a job, by the import of this module, in the process from which a supervisor forks jobs."""

from __future__ import annotations

import commands.job  # noqa: F401
import run_stream  # noqa: F401
import streaming.driver.job
import streaming.driver.launch
import streaming.worker.starting.loaded  # noqa: F401
