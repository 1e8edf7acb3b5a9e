"""The algorithms by name. To add one: a line here, `<name>/__init__.py` and `<name>/kernel.py`.

For: a package for each algorithm, with how it decides, its kernels and what only it needs; the modules beside the
packages serve several. May enter: tables and batches of the contract. Must not know: patterns, JSON, ids, or another
algorithm unless tests/unit/test_architecture.py names the pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from matchers.algorithms import (
    ada_rein,
    auto,
    be_tree,
    ccm,
    comat,
    counting,
    h_tree,
    hem,
    naive,
    name_vectors,
    ocm,
    opindex,
    pem,
    rein,
    scan,
    sff,
    tama,
    tiles,
    translator,
    wpa_rein,
)
from matchers.algorithms.auto.candidates import CANDIDATES
from matchers.algorithms.auto.choosing import Choice
from matchers.algorithms.auto.repeated import Once
from matchers.algorithms.be_tree import kernel as be_tree_kernel
from matchers.algorithms.comat.kernel import Ends
from matchers.algorithms.comat.predicted_time import PredictedTime
from matchers.algorithms.counting.kernel import Columns
from matchers.algorithms.h_tree import kernel as h_tree_kernel
from matchers.algorithms.hem import kernel as hem_kernel
from matchers.algorithms.hem import updates as hem_updates
from matchers.algorithms.ocm import kernel as ocm_kernel
from matchers.algorithms.opindex.kernel import Partitions
from matchers.algorithms.pem import library as pem_library
from matchers.algorithms.pem import updates as pem_updates
from matchers.algorithms.rein import updates as rein_updates
from matchers.algorithms.rein.kernel import Lists
from matchers.algorithms.scan.kernel import Table
from matchers.algorithms.sff import kernel as sff_kernel
from matchers.algorithms.tama import kernel as tama_kernel
from matchers.algorithms.tama import updates as tama_updates
from matchers.algorithms.tiles.kernels.arrays import Arrays
from matchers.algorithms.tiles.kernels.sparse import ColumnIndex
from matchers.algorithms.wpa_rein import kernel as wpa_rein_kernel
from matchers.algorithms.wpa_rein.precision import Precision
from matchers.contract.algorithm import Algorithm
from matchers.errors import MatchingError, known
from matchers.kernels.places import Places
from matchers.kernels.rows import Rows

ALGORITHMS: dict[str, Algorithm] = {
    "naive": Algorithm(naive.build, definition=True),
    "scan": Algorithm(scan.build),
    "counting": Algorithm(counting.build),
    "sff": Algorithm(sff.build),
    "rein": Algorithm(rein.build, updatable=rein_updates.build),
    "ada_rein": Algorithm(ada_rein.build, approximate=True),
    "hem": Algorithm(hem.build, updatable=hem_updates.build),
    "tama": Algorithm(tama.build, updatable=tama_updates.build),
    "opindex": Algorithm(opindex.build),
    "wpa_rein": Algorithm(wpa_rein.build, approximate=True, rated=True),
    "pem": Algorithm(pem.build, updatable=pem_updates.build),
    "comat": Algorithm(comat.build),
    "be_tree": Algorithm(be_tree.build),
    "h_tree": Algorithm(h_tree.build),
    "tiles": Algorithm(tiles.build),
    "ocm": Algorithm(ocm.build),
    "ccm": Algorithm(ccm.build, runnable=ccm.has_gpu),
    "translator": Algorithm(translator.build, chooses=("ccm", "ocm", "sff")),
    "auto": Algorithm(auto.build, chooses=tuple(CANDIDATES), weighs=("attributes", "batch")),
}


def named(name: str) -> Algorithm:
    """Raises MatchingError if there is none of this name."""
    if name not in ALGORITHMS:
        raise MatchingError(f"unknown algorithm {name!r}; {known(name, ALGORITHMS)}")
    return ALGORITHMS[name]


def runnable() -> list[str]:
    """The names of the algorithms that this machine can run."""
    return [name for name, algorithm in ALGORITHMS.items() if algorithm.runnable()]


# The classes that a saved matcher may consist of: `index.stored` makes no others.
STORED: tuple[type, ...] = (
    *(naive.Naive, scan.Scan, Table, counting.Counting, Columns, rein.Rein, Lists, Rows),
    *(sff.Sff, sff_kernel.Constraints, tama.Tama, tama_kernel.Dyadic, tama_kernel.Contents, tama_kernel.Intervals),
    *(hem.Hem, hem_kernel.Domain, hem_kernel.Index, hem_kernel.Chains, hem_kernel.Pairs),
    *(ada_rein.AdaRein, ada_rein.Order, ada_rein.Plan, ada_rein.Adaptation),
    *(wpa_rein.WpaRein, wpa_rein.Calibration, Precision, wpa_rein_kernel.Lists),
    *(opindex.OpIndex, Partitions, be_tree.BeTree, be_tree_kernel.Tree, Places),
    *(h_tree.HTree, h_tree_kernel.Tree, h_tree_kernel.Overlapping),
    *(pem.Pem, pem.Side, pem.Run, pem.Balance, comat.Comat, PredictedTime, Ends),
    *(
        ocm.Ocm,
        ocm_kernel.Names,
        ocm_kernel.Tables,
        ocm_kernel.Constraints,
        ccm.Ccm,
        name_vectors.NameVectors,
        tiles.Tiles,
        Arrays,
        ColumnIndex,
        auto.Auto,
        Choice,
        Once,
    ),
)
# Functions that matchers hold.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "perf_counter": time.perf_counter,
    "thread_time": time.thread_time,
    "rein": rein.build,
    "hem": hem.build,
    "opindex": opindex.build,
    "tama with 17 levels": pem_library.TAMA,
}
