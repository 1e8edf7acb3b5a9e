"""The limit on open files is raised as far as the system allows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rig.child import HOME
from streaming.process import open_files

PROGRAM = """
import resource
from streaming.process import open_files
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
open_files.raise_limit()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [(64, 500, 500), (500, 500, 500), (64, "hard", None)],
    ids=["to that of the system", "which it has already", "without hindrance"],
)
def test_a_job_may_open_as_many_files_as_the_system_allows(soft: int, hard: int | str, raised: int | None) -> None:
    program = PROGRAM.format(soft=soft, hard=hard)
    done = subprocess.run([sys.executable, "-c", program], cwd=HOME, capture_output=True, text=True, check=True)
    now, most = map(int, done.stdout.split())
    assert now == (raised or (min(most, open_files.MOST) if most >= 0 else open_files.MOST))
