"""The algorithms by name. One line here and two files, `algorithms/<name>.py` and `kernels/<name>.py`, add one."""

from __future__ import annotations

from collections.abc import Callable

from matchers.algorithms import ada_rein, be_tree, counting, h_tree, hem, naive, pem, rein, scan, tama, tiles, wpa_rein
from matchers.base import Matcher

ALGORITHMS: dict[str, Callable[..., Matcher]] = {
    "naive": naive.build,
    "scan": scan.build,
    "counting": counting.build,
    "rein": rein.build,
    "ada_rein": ada_rein.build,
    "hem": hem.build,
    "tama": tama.build,
    "wpa_rein": wpa_rein.build,
    "pem": pem.build,
    "be_tree": be_tree.build,
    "h_tree": h_tree.build,
    "tiles": tiles.build,
}

# Those that may list more than what matches, never less; with the option exact=True they list what matches.
ADAPTIVE: frozenset[str] = frozenset({"ada_rein", "wpa_rein"})
