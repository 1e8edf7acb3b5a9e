"""The algorithms by name. One line here and two files, `algorithms/<name>.py` and `kernels/<name>.py`, add one."""

from __future__ import annotations

from collections.abc import Callable

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
    ocm,
    opindex,
    pem,
    rein,
    scan,
    sff,
    tama,
    tiles,
    wpa_rein,
)
from matchers.base import Matcher

ALGORITHMS: dict[str, Callable[..., Matcher]] = {
    "naive": naive.build,
    "scan": scan.build,
    "counting": counting.build,
    "sff": sff.build,
    "rein": rein.build,
    "ada_rein": ada_rein.build,
    "hem": hem.build,
    "tama": tama.build,
    "opindex": opindex.build,
    "wpa_rein": wpa_rein.build,
    "pem": pem.build,
    "comat": comat.build,
    "be_tree": be_tree.build,
    "h_tree": h_tree.build,
    "tiles": tiles.build,
    "ocm": ocm.build,
    "ccm": ccm.build,
    "auto": auto.build,
}

# Those that may list more than what matches, never less; with the option exact=True they list what matches.
ADAPTIVE: frozenset[str] = frozenset({"ada_rein", "wpa_rein"})


def here() -> list[str]:
    """Those that this machine can run: all, or all but the one that needs a GPU."""
    return [name for name in ALGORITHMS if name != "ccm" or ccm.gpu() not in (None, "simulator")]
