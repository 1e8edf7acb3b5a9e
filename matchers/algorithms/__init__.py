"""The algorithms by name. One line here and two files, `algorithms/<name>.py` and `kernels/<name>.py`, add one."""

from __future__ import annotations

from collections.abc import Callable

from matchers.algorithms import counting, naive, pem, rein, scan, tama
from matchers.base import Matcher

ALGORITHMS: dict[str, Callable[..., Matcher]] = {
    "naive": naive.build,
    "scan": scan.build,
    "counting": counting.build,
    "rein": rein.build,
    "tama": tama.build,
    "pem": pem.build,
}

# Those that may list more than what matches, never less; with the option exact=True they list what matches.
ADAPTIVE: frozenset[str] = frozenset()
