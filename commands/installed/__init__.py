"""The script `sluice` of the wheel: the commands of `run_stream.py`.

In the wheel this file is the package `sluice_app`, and the other packages lie in its directory `code`, where only the
process of the script finds them.

For: starting `run_stream.py` from an installation. May enter: the process's arguments and path. Must not know: what a
command does.
"""

from __future__ import annotations

import sys
from pathlib import Path

CODE = Path(__file__).with_name("code")
NAME = "sluice-pubsub"  # of the distribution
CHECKOUT = ("bench living", "bench system", "bench gate")  # commands that compare with other code
JOB = ("run", "broker", "demo", "doctor", "jars", "warm")  # commands that need the extra `job`
CLI = ("orjson", "psutil", "pydantic", "rich", "ruamel", "typer")  # packages of the extra `cli`


def main() -> None:
    sys.path.insert(0, str(CODE))
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from streaming.version import VERSION

        print(f"sluice {VERSION}")
        return
    if (command := " ".join(arguments[:2])) in CHECKOUT:
        sys.exit(f"error: {command} needs a checkout of the repository or its container image")
    try:
        import run_stream

        run_stream.main()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = "job" if arguments[:1] and arguments[0] in JOB else "cli" if package in CLI else "client"
        sys.exit(f"error: the Python package {package} is missing; install it with: pip install '{NAME}[{extra}]'")
