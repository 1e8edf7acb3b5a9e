"""Define the input and output of an algorithm: tables of numbers, batches of events, lists of matches.

For: the place where algorithms and their callers meet. May enter: arrays of numbers. Must not know: patterns, JSON,
ids, or any algorithm.
"""
