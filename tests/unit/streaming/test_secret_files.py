"""Options whose value is in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming import secret_files
from streaming.errors import JobError
from streaming.kafka.login import renew
from streaming.secret_files import MAX_BYTES, read


def secret(directory: Path, content: str | bytes) -> str:
    """Return a reference to a new file."""
    file = directory / "secret"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return f"${{file:{file}}}"


@pytest.mark.parametrize("content", ["hunter2", "hunter2\n", "hunter2\r\n"], ids=repr)
def test_the_value_is_the_line_of_the_file(content: str, tmp_path: Path) -> None:
    options = {"sasl.username": "job", "sasl.password": secret(tmp_path, content)}
    assert read("kafka.client", options) == {"sasl.username": "job", "sasl.password": "hunter2"}


def test_spaces_and_every_other_character_belong_to_the_secret(tmp_path: Path) -> None:
    assert read("s", {"a": secret(tmp_path, ' ä"\\$}{ \n')}) == {"a": ' ä"\\$}{ '}
    assert read("s", {"a": secret(tmp_path, "${file:/etc/hostname}")}) == {"a": "${file:/etc/hostname}"}


def test_a_secret_within_a_quoted_string_is_escaped(tmp_path: Path) -> None:
    jaas = 'ScramLoginModule required username="u" password="%s";'
    reference = secret(tmp_path, 'hunter"2\\\n')
    assert read("kafka.spark", {"sasl.jaas.config": jaas % reference}) == {"sasl.jaas.config": jaas % 'hunter\\"2\\\\'}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is empty"),
        ("\n", "is empty"),
        ("hunter2\nhunter3\n", "has more than one line"),
        ("hunter2\n\n", "has more than one line"),
        ("hunter2\rhunter3", "has more than one line"),
        ("h" * MAX_BYTES + "\n", "has more than 16,384 bytes"),
        ("é" * MAX_BYTES, "has more than 16,384 bytes"),
        (b"hunter2\xff", "is not UTF-8"),
    ],
    ids=["empty", "empty line", "two lines", "an empty second line", "a carriage return", "long", "two bytes", "bytes"],
)
def test_a_file_that_holds_no_secret_is_rejected(content: str | bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(JobError) as error:
        read("kafka.client", {"sasl.password": secret(tmp_path, content)})
    assert str(error.value) == f"kafka.client.sasl.password: the file {tmp_path / 'secret'} {reason}"
    assert not error.value.retry


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${file:/no/such/file}", "the file /no/such/file cannot be read: No such file or directory"),
        ("${file:/}", "the file / cannot be read: Is a directory"),
        ("${file:secret}", "write the absolute path of a file, such as ${file:/run/secrets/kafka}"),
        ("${file:}", "write the absolute path of a file"),
        ("${file:/run/secrets/kafka", "write the absolute path of a file"),
    ],
)
def test_a_reference_to_no_file_is_rejected(reference: str, reason: str) -> None:
    with pytest.raises(JobError) as error:
        read("schema_registry.options", {"bearer.auth.token": reference})
    assert str(error.value).startswith(f"schema_registry.options.bearer.auth.token: {reason}")


def test_a_file_that_may_not_be_read_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:  # the super-user may read every file
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", forbidden)
    with pytest.raises(JobError, match=r"kafka\.client\.a: the file /secret cannot be read: Permission denied"):
        read("kafka.client", {"a": "${file:/secret}"})


def test_the_login_is_that_of_the_files_now(tmp_path: Path) -> None:
    options = {"sasl.username": "job", "sasl.password": secret(tmp_path, "old")}
    assert secret_files.login(options) == ("job", "old")
    secret(tmp_path, "new")
    assert secret_files.login(options) == ("job", "new")


def test_a_client_keeps_its_login_without_files_or_while_one_cannot_be_read(tmp_path: Path) -> None:
    assert secret_files.login({}) is None
    assert secret_files.login({"sasl.username": "job", "sasl.password": "hunter2"}) is None
    assert secret_files.login({"sasl.password": secret(tmp_path, "alone")}) is None
    assert secret_files.login({"sasl.username": "job", "sasl.password": secret(tmp_path, "")}) is None


def test_a_client_of_librdkafka_gets_the_login_of_the_files(tmp_path: Path) -> None:
    class Client:
        def __init__(self) -> None:
            self.logins: list[tuple[str, str]] = []

        def set_sasl_credentials(self, username: str, password: str, /) -> None:
            self.logins.append((username, password))

    client = Client()
    assert renew(client, {"sasl.username": "job", "sasl.password": secret(tmp_path, "new")})
    assert not renew(client, {"sasl.username": "job", "sasl.password": "fixed"})
    assert client.logins == [("job", "new")]
