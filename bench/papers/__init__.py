"""The experiments of the papers with the numbers that their texts state, and our own experiments with `tiles`.

For: run an experiment, draw it, write its tables. May enter: workloads and measurements. Must not know:
Kafka and Spark.
"""

from __future__ import annotations

from bench.papers import eem, hem, pcm, pem, rein, tiles
from bench.papers.figures import Figure

PAPERS: dict[str, tuple[Figure, ...]] = {
    "hem": hem.FIGURES,
    "eem": eem.FIGURES,
    "pem": pem.FIGURES,
    "rein": rein.FIGURES,
    "pcm": pcm.FIGURES,
    "tiles": tiles.FIGURES,
}
