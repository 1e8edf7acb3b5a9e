"""The algorithms that jobs use: `auto`, those it chooses from, `wpa_rein`, and `naive`, the definition.

For: a package for each algorithm, with how it decides, its kernels and what only it needs; the modules beside the
packages serve several. May enter: tables and batches of the contract. Must not know: patterns, JSON, ids, or another
algorithm unless tests/unit/test_architecture.py names the pair.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from matchers.algorithms import auto, be_tree, counting, hem, naive, ocm, scan, tama, tiles, wpa_rein
from matchers.algorithms.auto.candidates import CANDIDATES
from matchers.contract.algorithm import Algorithm

ALGORITHMS: dict[str, Algorithm] = {
    "naive": Algorithm(naive.build, naive.STORED, definition=True),
    "scan": Algorithm(scan.build, scan.STORED),
    "counting": Algorithm(counting.build, counting.STORED),
    "hem": Algorithm(hem.build, hem.STORED),
    "tama": Algorithm(tama.build, tama.STORED),
    "wpa_rein": Algorithm(wpa_rein.build, wpa_rein.STORED, approximate=True, rated=True),
    "be_tree": Algorithm(be_tree.build, be_tree.STORED),
    "tiles": Algorithm(tiles.build, tiles.STORED),
    "ocm": Algorithm(ocm.build, ocm.STORED),
    "auto": Algorithm(auto.build, auto.STORED, chooses=tuple(CANDIDATES), weighs=("attributes", "batch")),
}

# Functions that these matchers hold, by the names that a file has of them.
FUNCTIONS: dict[str, Callable[..., Any]] = {"perf_counter": perf_counter}
