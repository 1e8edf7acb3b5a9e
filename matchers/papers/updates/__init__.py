"""Indexes that change in place, as their sources describe insertion and deletion."""

from __future__ import annotations

from collections.abc import Callable

from matchers.papers.updates.be_tree import UpdatableBeTree
from matchers.papers.updates.comat import UpdatableComat
from matchers.papers.updates.h_tree import UpdatableHTree
from matchers.papers.updates.hem import UpdatableHem
from matchers.papers.updates.opindex import UpdatableOpIndex
from matchers.papers.updates.pem import UpdatablePem
from matchers.papers.updates.rein import UpdatableRein
from matchers.papers.updates.tama import UpdatableTama
from matchers.papers.updates.updatable import Updatable

# By the algorithm: (table, **options of its `build`).
UPDATABLE: dict[str, Callable[..., Updatable]] = {
    "rein": UpdatableRein,
    "tama": UpdatableTama,
    "pem": UpdatablePem,
    "hem": UpdatableHem,
    "opindex": UpdatableOpIndex,
    "be_tree": UpdatableBeTree,
    "h_tree": UpdatableHTree,
    "comat": UpdatableComat,
}
