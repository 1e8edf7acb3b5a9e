"""What the command line does, a file per group of commands; `run_stream.py` imports one when it is called."""

from pathlib import Path

HOME = Path(__file__).resolve().parents[1]  # of the code
JARS = HOME / "jars"
