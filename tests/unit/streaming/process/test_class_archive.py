"""The archive of a JVM's classes is written once and used from then on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from streaming.errors import JobError
from streaming.process.class_archive import ClassArchive
from streaming.process.java import java


def run(*options: str) -> str:
    return subprocess.run([java(), *options, "-Xlog:class+load", "-version"], capture_output=True, text=True).stdout


def test_the_first_jvm_writes_what_the_next_one_uses(tmp_path: Path) -> None:
    assert ClassArchive([tmp_path]).used() == ()
    run(*ClassArchive([tmp_path]).used_or_written())
    ClassArchive([tmp_path]).keep()
    (archive,) = tmp_path.iterdir()
    assert archive.suffix == ".jsa"
    options = ClassArchive([tmp_path]).used()
    assert ClassArchive([tmp_path]).used_or_written() == options
    assert "shared objects file (top)" in run(*options)


def test_nothing_is_kept_of_a_jvm_that_wrote_nothing(tmp_path: Path) -> None:
    ClassArchive([tmp_path]).keep()
    assert not ClassArchive([tmp_path]).exists()
    assert list(tmp_path.iterdir()) == []


def test_an_archive_of_other_jars_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = ClassArchive([tmp_path])
    run(*archive.used_or_written())
    archive.keep()
    (tmp_path / "one.jar").touch()
    other = ClassArchive([tmp_path])
    assert not other.exists()
    run(*other.used_or_written())
    other.keep()
    assert (archive.exists(), other.exists()) == (False, True)
    assert not ClassArchive([tmp_path, tmp_path]).exists()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(Path(java()).resolve())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert ClassArchive([tmp_path]).exists()  # the same Java by another way


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JobError, match=f"JAVA_HOME = {tmp_path} has no bin/java"):
        java()
