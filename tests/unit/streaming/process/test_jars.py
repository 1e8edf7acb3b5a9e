"""The pinned jars are fetched by Ivy, all or none; here from a directory that serves as repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.errors import JobError
from streaming.process import jars
from streaming.process.jars import SETS, JarSet, SetName
from tests.support.documents import HOME

SETTINGS = """<ivysettings>
  <settings defaultResolver="local"/>
  <caches defaultCacheDir="{home}/cache"/>
  <resolvers>
    <filesystem name="local" m2compatible="true">
      <artifact pattern="{home}/repository/[artifact]-[revision].[ext]"/>
    </filesystem>
  </resolvers>
</ivysettings>"""
PINS = """<ivy-module version="2.0">
  <info organisation="test" module="jars"/>
  <configurations><conf name="one"/><conf name="two"/></configurations>
  <dependencies defaultconf="one->default">
    <dependency org="a" name="a" rev="1" transitive="false"/>
    <dependency org="b" name="b" rev="2" transitive="false" conf="two->default"/>
  </dependencies>
</ivy-module>"""
CHOSEN = JarSet("pins.xml", ("one", "two"))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A directory of settings, and a repository that has both jars."""
    for directory in ("config", "repository"):
        (tmp_path / directory).mkdir()
    (tmp_path / "config" / "ivysettings.xml").write_text(SETTINGS.format(home=tmp_path))
    (tmp_path / "config" / "pins.xml").write_text(PINS)
    for name in ("a-1.jar", "b-2.jar"):
        (tmp_path / "repository" / name).write_text(name)
    return tmp_path / "config"


def content(directory: Path) -> dict[str, str]:
    return {str(file.relative_to(directory)): file.read_text() for file in directory.rglob("*") if file.is_file()}


def test_the_jars_of_a_set_are_replaced_and_others_stay(config: Path, tmp_path: Path) -> None:
    there = tmp_path / "jars"
    for name in ("one/a-0.jar", "other/c.jar"):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text("older")
    jars.fetch(CHOSEN, config, there)
    assert content(there) == {"one/a-1.jar": "a-1.jar", "two/b-2.jar": "b-2.jar", "other/c.jar": "older"}


def test_if_one_cannot_be_fetched_all_stay_as_they_are(config: Path, tmp_path: Path) -> None:
    there = tmp_path / "jars"
    jars.fetch(CHOSEN, config, there)
    before = content(there)
    (config / "pins.xml").write_text(PINS.replace('rev="2"', 'rev="3"'))
    with pytest.raises(JobError, match=r"(?s)Ivy could not fetch the jars:.*b#b;3: not found"):
        jars.fetch(CHOSEN, config, there)
    assert content(there) == before


def test_a_directory_that_cannot_be_written_is_named(config: Path, tmp_path: Path) -> None:
    (tmp_path / "jars").touch()
    with pytest.raises(JobError, match=f"cannot write jars into {tmp_path}/jars: File exists"):
        jars.fetch(CHOSEN, config, tmp_path / "jars")


def test_without_java_the_error_says_so(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JobError, match="has no bin/java"):
        jars.fetch(CHOSEN, config, tmp_path / "jars")


@pytest.mark.parametrize("name", SETS)
def test_each_set_names_the_configurations_of_its_file(name: SetName) -> None:
    chosen = SETS[name]
    assert {directory for directory, _ in jars.pinned(HOME / "config" / chosen.pins)} == set(chosen.directories)
