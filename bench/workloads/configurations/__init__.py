"""Workloads drawn at random, for a search for the inputs on which an algorithm is slow.

For: draw the settings of a workload from a seed and a number, and its subscriptions and events from the settings. May
enter: any property of a workload that may make an algorithm slow. Must not know: how algorithms are timed.
"""
