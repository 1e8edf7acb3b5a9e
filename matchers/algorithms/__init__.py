"""The algorithms by name. One line here and two files, `algorithms/<name>.py` and `kernels/<name>.py`, add one."""

from __future__ import annotations

from collections.abc import Callable

from matchers.algorithms import counting, hem, naive, scan, wpa_rein
from matchers.base import Matcher

ALGORITHMS: dict[str, Callable[..., Matcher]] = {
    "naive": naive.build,
    "scan": scan.build,
    "counting": counting.build,
    "hem": hem.build,
    "wpa_rein": wpa_rein.build,
}
