"""Tie this process to the life of its parent, in a session of its own, by the import of this module: a fork server
imports it first."""

import os

from streaming.process.child import die_with_parent

os.setsid()  # a signal to the group of its parent is not for it
die_with_parent()
PID = os.getpid()  # of the fork server, in what it has forked
