"""Tie this process to the life of its parent, by the import of this module: a fork server imports it first."""

from streaming.process.child import die_with_parent

die_with_parent()
