"""`subscriptions apply` reads its input twice, whatever that is."""

from __future__ import annotations

import errno
import io
import os
import threading
from pathlib import Path

import pytest

from commands import subscriptions
from offline.files import InputError, lines


def test_a_pipe_is_kept_so_that_it_can_be_read_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_bytes, args=(b"a\nb\n",))
    writing.start()
    with subscriptions._kept(pipe) as kept:
        for _ in range(2):
            assert [line for _, line in lines(kept)] == [b"a", b"b"]
    writing.join()


def test_a_full_disk_of_temporary_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        name = "none"

        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", lambda prefix: Full())
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/somewhere")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_bytes, args=(b"a\n",))
    writing.start()
    with (
        pytest.raises(InputError, match="/somewhere cannot be written: No space left on device"),
        subscriptions._kept(pipe),
    ):
        pass
    writing.join()
