"""Regular expressions of RE2's syntax, whose time is linear in the text.

For: read an expression, and decide whether it accepts a text. May enter: expressions and texts from anybody, hostile
ones too. Must not know: patterns, events, operators.

expressions.py  the tree of an expression, and its literal beginning and end
automaton.py    the states that a text leads through, made as they are met
"""
