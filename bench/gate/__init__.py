"""The gate for speed: a few points of matching and of the whole system, compared with recorded figures.

    points     the points by name        matching, system    how each kind is measured
    machine    calibration and the machine's name
    recorded   the figures in recorded.json                  measuring, verdict    the run, and what it says

For: notice within ten minutes that a change made something slower. May enter: the benchmarks whose points it runs. Must
not know: how what it measures works inside.
"""
