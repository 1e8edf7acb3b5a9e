"""What a job leaves on disk, and who removes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming import checkpoint


def left_by_a_killed_job(location: Path) -> Path:
    """A scratch directory whose job never came to its end."""
    location.mkdir()
    scratch = location.parent / "sluice-killed"
    scratch.mkdir()
    (scratch / "file").write_text("")
    (location / checkpoint.SCRATCH).symlink_to(scratch)
    return scratch


def test_scratch_goes_with_the_job_and_what_a_killed_one_left_goes_with_the_next(tmp_path: Path) -> None:
    killed = left_by_a_killed_job(tmp_path / "c")
    with checkpoint.scratch(str(tmp_path / "c")) as directory:
        assert not killed.exists()
        assert (tmp_path / "c" / checkpoint.SCRATCH).readlink() == directory
    assert not directory.exists()
    assert list((tmp_path / "c").iterdir()) == []


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_what_a_killed_job_left_can_be_cleared(tmp_path: Path, prefix: str) -> None:
    killed = left_by_a_killed_job(tmp_path / "c")
    for _ in range(2):  # there may be nothing to clear
        checkpoint.clear(f"{prefix}{tmp_path}/c")
        assert not killed.exists()
        assert list((tmp_path / "c").iterdir()) == []
