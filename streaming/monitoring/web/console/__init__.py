"""The pages of the console, by path.

For: render the console's answers, each page from the fields of its form. May enter: the answers of `streaming.console`,
and texts from anybody. Must not know: how they are found. Every page is a GET, and works without a script.
"""
