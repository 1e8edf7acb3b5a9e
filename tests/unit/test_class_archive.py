"""The archive of a JVM's classes is written once and used from then on."""

from __future__ import annotations

import subprocess
from pathlib import Path

from streaming.kafka.broker import java
from streaming.process.class_archive import ClassArchive


def run(*options: str) -> str:
    return subprocess.run([java(), *options, "-Xlog:class+load", "-version"], capture_output=True, text=True).stdout


def test_the_first_jvm_writes_what_the_next_one_uses(tmp_path: Path) -> None:
    assert ClassArchive(tmp_path).used() == ()
    run(*ClassArchive(tmp_path).used_or_written())
    ClassArchive(tmp_path).keep()
    assert [path.name for path in tmp_path.iterdir()] == ["classes.jsa"]
    options = ClassArchive(tmp_path).used()
    assert ClassArchive(tmp_path).used_or_written() == options
    assert "shared objects file (top)" in run(*options)


def test_nothing_is_kept_of_a_jvm_that_wrote_nothing(tmp_path: Path) -> None:
    ClassArchive(tmp_path).keep()
    assert not ClassArchive(tmp_path).exists()
    assert list(tmp_path.iterdir()) == []
