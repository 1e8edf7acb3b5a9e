"""Subscriptions and events for benchmarks, determined by their settings.

For: generate them, from distributions or from files, and make them ready to be matched. May enter: what a paper or a
scenario says of its data. Must not know: how they are timed, and against what.
"""
