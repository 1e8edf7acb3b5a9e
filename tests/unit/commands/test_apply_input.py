"""`subscriptions apply` reads its input twice, whatever that is."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from commands import subscriptions
from offline.files import lines


def test_a_pipe_is_kept_so_that_it_can_be_read_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_bytes, args=(b"a\nb\n",))
    writing.start()
    with subscriptions._kept(pipe) as kept:
        for _ in range(2):
            assert [line for _, line in lines(kept)] == [b"a", b"b"]
    writing.join()
