"""`translator`: `sff` on the CPU for few filters, `ccm` on the GPU for more.

Source: Margara and Cugola, "High Performance Publish-Subscribe Matching Using Parallel Hardware" (PCM), sec. 4.3: a
translator switches between the CPU, which runs SFF or OCM, and the GPU, which runs CCM, as the set of subscriptions is
large enough for the GPU or not. Sec. 4.1: SFF and BETree are the faster ones with less than 1,000 filters behind each
interface, as the fixed cost of a launch then counts for more than the matching. Ours counts all filters: it knows no
interfaces before an event is forwarded.

The source does not state when its CPU runs SFF and when OCM. Ours runs SFF where filters are few, and OCM where they
are many and there is no GPU (a simulated one is none); it warns if there is one that numba cannot use. An index is
chosen when it is built, so a snapshot chooses again as subscriptions come and go. With `ccm` it has run on numba's
simulator of a GPU only.
"""

from __future__ import annotations

import warnings
from functools import cache

from matchers.algorithms import ocm
from matchers.contract.matcher import Matcher
from matchers.contract.tables import SubscriptionTable
from matchers.errors import MatchingError
from matchers.papers import ccm, sff

FEW_FILTERS = 1_000


def build(table: SubscriptionTable, few: int = FEW_FILTERS) -> Matcher:
    """The matcher of `sff` below `few` filters, else that of `ccm`, or of `ocm` without a GPU. Raises MatchingError."""
    if few < 0:
        raise MatchingError(f"few, the number of filters from which the GPU is used, must be 0 or more, not {few}")
    if table.n_subscriptions < few:
        return sff.build(table)
    if ccm.has_gpu():
        return ccm.build(table)
    if ccm.has_driver():
        _warn(f"translator uses ocm: {ccm.lacking()}")
    return ocm.build(table)


@cache
def _warn(text: str) -> None:
    """Once per process: an index is built for each segment of a snapshot."""
    warnings.warn(text, RuntimeWarning, stacklevel=4)
