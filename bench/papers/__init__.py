"""The experiments of the papers, with the numbers that their texts state, and those of our own algorithm."""

from __future__ import annotations

from bench.figures import Figure
from bench.papers import eem, hem, pcm, pem, rein, tiles

PAPERS: dict[str, tuple[Figure, ...]] = {
    "hem": hem.FIGURES,
    "eem": eem.FIGURES,
    "pem": pem.FIGURES,
    "rein": rein.FIGURES,
    "pcm": pcm.FIGURES,
    "tiles": tiles.FIGURES,
}
