"""Let a process have as many files open as the system allows: a first load maps a file for each of its slices."""

from __future__ import annotations

import sys

MOST = 65_536  # `select` and the closing of inherited descriptors slow down with more


def raise_limit() -> None:
    """Raise this process's limit on open files to the system's, at most to MOST. What it starts inherits it."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
