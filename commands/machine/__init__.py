"""Commands `jars` and `warm`: prepare this machine for a job.

For: fetching the pinned jars, compiling kernels. May enter: the files of this installation. Must not know: a broker.
"""
