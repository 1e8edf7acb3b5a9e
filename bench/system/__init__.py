"""Measure the whole system under load while subscriptions change, and check every delivery.

    generator ──► events, subscriptions ──► broker ──► job ──► deliveries, statuses ──► follower
       (a process)                                 (a process)          │               (a process)
                                              all four topics, when all is done ──► check

`bench living` runs it. `run` starts and stops the processes, which are those of `rig`.

For: throughput, latency and correctness of the whole, Sluice or a baseline. May enter: the job's command line and
topics. Must not know: how the job matches, so it imports nothing of matchers.
"""
