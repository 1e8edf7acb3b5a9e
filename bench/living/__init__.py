"""The whole system under load, with subscriptions that change all the time, and every delivery checked.

    generator ──► events, subscriptions ──► broker ──► job ──► deliveries, statuses ──► follower
       (a process)                                 (a process)          │               (a process)
                                              all four topics, when all is done ──► check

`bench living` runs it. `load` says what is written, `generator` writes it, `run` starts and stops the processes,
`reading` makes arrays of the topics, `check` says what should have been delivered and compares.
"""
