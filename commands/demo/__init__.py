"""Command `demo`: run the whole system on real events and compare the deliveries with the reference implementation.

For: `command` has the flags, `show` starts broker and job and draws the picture. May enter: what a user could start.
Must not know: the inside of the job.
"""
