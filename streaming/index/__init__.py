"""Compiled subscriptions as files that workers map.

For: pack segments into files and broadcasts, and open them again. May enter: arrays, paths, payload columns of a
segment. Must not know: which version is in force (`state` does), and Kafka.
"""
