"""The compiled loops of `tiles`.

For: cut cells and clusters, lay out tiles, match. May enter: arrays. Must not know: what the package above decides.
"""
