"""The pattern language: the model, its parser, the operators, the explanation, and the lowering to ranges.

For: read a pattern, explain when it holds, lower it to columns and ranges; `naive` is the reference implementation for
every index. May enter: patterns and events as plain JSON values. Must not know: arrays, kernels, algorithms, so
that commands that only read patterns start without numba.
"""
