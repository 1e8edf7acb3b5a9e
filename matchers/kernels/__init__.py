"""Loops over arrays that several algorithms share, and `jit`, which compiles every kernel.

For: take arrays and fill arrays; everything that decides lives elsewhere. May enter: arrays. Must not know: the rest of
the library.
"""
