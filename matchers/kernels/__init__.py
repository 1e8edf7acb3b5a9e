"""Loops over arrays, compiled by numba: they take arrays and fill arrays; everything that decides lives elsewhere."""
