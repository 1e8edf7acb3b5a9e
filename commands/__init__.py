"""The commands, a file per group; `run_stream.py` imports one when it is called.

For: flags in, calls of other packages, text or JSON out, exit codes. May enter: every other package; this is the only
one that sees all of them. Must not know: how they do it. No other package imports from here.
"""

from pathlib import Path

HOME = Path(__file__).resolve().parents[1]  # of the code
JARS = HOME / "jars"
