"""The `demo` command: run the whole system on real events and compare the deliveries with the definition of matching.

For: `command` has the flags, `show` starts broker and job and draws the picture. May enter: what a user could start.
Must not know: the inside of the job.
"""
