"""Compiled loops over the bytes of events and patterns, called by the modules of `matchers.index` only.

For: read JSON, encode values, tell shapes, find texts. May enter: arrays. Must not know: Python objects, tables,
algorithms.
"""
