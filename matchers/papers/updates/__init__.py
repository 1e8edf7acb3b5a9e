"""Indexes that change in place, as the papers of `rein`, `tama`, `pem` and `hem` describe insertion and deletion."""

from __future__ import annotations

from collections.abc import Callable

from matchers.papers.updates import hem, pem, rein, tama
from matchers.papers.updates.updatable import Updatable

# By the algorithm: (table, **options of its `build`).
UPDATABLE: dict[str, Callable[..., Updatable]] = {
    "rein": rein.build,
    "tama": tama.build,
    "pem": pem.build,
    "hem": hem.build,
}
