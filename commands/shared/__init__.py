"""Code that several commands share: flags, input, output, signals, exit codes, and lazy imports.

For: code that two commands would otherwise repeat. May enter: the terminal and the settings. Must not know: a command.
"""
