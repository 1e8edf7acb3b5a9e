"""Benchmarks of algorithms and of the whole system, and the experiments of the papers; every answer is checked.

    workloads   subscriptions and events to measure with
    matching    algorithms on one workload, turn by turn
    papers      the experiments of the papers, beside what their texts state
    tiles       the constants and the cost model of `tiles`, and its rivals
    system      the whole system under load, with every delivery checked
    baselines   what one would write with Spark or Kafka Streams instead of Sluice
    gate        a few points of matching and of the whole system against recorded figures
    commands    the commands that measure, and what they print

For: measure, and check every answer before its time is shown. May enter: matchers; only `system` and `gate` start
the job. Must not know: the command line's other commands, and how what it measures works inside.
"""
