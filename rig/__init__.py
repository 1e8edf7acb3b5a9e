"""The parts that run the whole system on one machine and check it: the demo, benchmarks and long tests share them.

    load ──► generator ──► broker ──► job ──► broker ──► reading ──► check

`place` has a broker with the topics of a job and its settings. `generator` and `follower`, which reads deliveries and
statuses as a subscriber does, are processes that `child` starts. `records` parses one record of each topic, `processes`
finds those of the job, `usage` says what they take.

For: one way to start a broker, a load and the job, to read what it wrote, to say what is right, and to measure
processes. May enter: the command line of the job, its topics and its settings. Must not know: how the job matches, and
what is done with the answers.
"""
