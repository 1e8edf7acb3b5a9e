"""The algorithms that a job gets only if its configuration names one: published methods, to measure and compare.

For: a package for each algorithm, as in `algorithms`; `updates` has their indexes that change in place. May enter:
tables and batches of the contract. Must not know: patterns, JSON, ids, or another algorithm unless
tests/unit/test_architecture.py names the pair.
"""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time
from typing import Any

from matchers.algorithms import hem
from matchers.contract.algorithm import Algorithm
from matchers.papers import ada_rein, awb_tree, ccm, comat, h_tree, opindex, pem, rein, sff, translator
from matchers.papers.pem.library import TAMA

ALGORITHMS: dict[str, Algorithm] = {
    "sff": Algorithm(sff.build, sff.STORED),
    "rein": Algorithm(rein.build, rein.STORED),
    "ada_rein": Algorithm(ada_rein.build, ada_rein.STORED, approximate=True),
    "opindex": Algorithm(opindex.build, opindex.STORED),
    "pem": Algorithm(pem.build, pem.STORED),
    "comat": Algorithm(comat.build, comat.STORED),
    "h_tree": Algorithm(h_tree.build, h_tree.STORED),
    "awb_tree": Algorithm(awb_tree.build, awb_tree.STORED),
    "ccm": Algorithm(ccm.build, ccm.STORED, runnable=ccm.has_gpu),
    "translator": Algorithm(translator.build, chooses=("ccm", "ocm", "sff")),
}

# Functions that these matchers hold, by the names that a file has of them.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "thread_time": thread_time,
    "rein": rein.build,
    "hem": hem.build,
    "opindex": opindex.build,
    "tama with 17 levels": TAMA,
}
