"""Compile patterns and event bytes to tables, and matches back to ids, one immutable version at a time.

For: fields, vocabularies, segments and snapshots; reading values from bytes; compiling many patterns of one shape. May
enter: lowered patterns, raw events, ids. Must not know: how an algorithm decides. `snapshot` looks one up by its name.
"""
