"""Match regular expressions in RE2's syntax, in time linear in the length of the text.

For: read an expression, and decide whether it accepts a text. May enter: expressions and texts from anybody, hostile
ones too. Must not know: patterns, events, operators.

expressions.py  the tree of an expression, and its literal beginning and end
automaton.py    the states that a text leads through, made as they are met
"""
