"""The job and the command line on a broker that grants exactly the rights of SECURITY.md."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import psutil
import pytest
from confluent_kafka import Message

from config import load
from streaming.kafka.clients import Cluster, read
from tests.integration.conftest import JARS, CommandLine
from tests.integration.running import Job, job
from tests.support.doubles.secured import (
    ADMIN,
    ADMIN_PASSWORD,
    Right,
    Secured,
    certificates,
    commands,
    rights,
    secured_kafka,
)
from tests.support.patience import PATIENCE_S

SECRET = "hunter2"  # within every password
RIGHTS = rights()


class Users(CommandLine):
    """The command line as one of the users that SECURITY.md names, and all that it wrote."""

    def __init__(self, kafka: Secured, directory: Path) -> None:
        self.kafka = kafka
        self.directory = directory
        self.written: list[str] = []
        theirs = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        self.environment = {
            **theirs,
            "SLUICE_QUERY__CHECKPOINT": str(directory / "checkpoint"),
            "SLUICE_LOG__FORMAT": "json",
            "SLUICE_LOG__LEVEL": "debug",
        }

    def flags_of(self, user: str, password: str | None = None, authority: Path | None = None) -> tuple[str, str]:
        return self.file(user, self.kafka.settings(user, password or _password(user), authority))

    def file(self, name: str, settings: str) -> tuple[str, str]:
        path = self.directory / f"{name}.toml"
        path.write_text(settings)
        return "--config", str(path)

    def as_(self, user: str, *arguments: str, stdin: str = "", code: int = 0) -> str:
        self.written.append(self(*arguments, *self.flags_of(user), stdin=stdin, code=code))
        return self.written[-1]

    def subscribe(self, id: str, pattern: str) -> None:
        """Register a subscription of alice's, and wait until the job that runs has accepted it."""
        self.as_("registrar", "subscribe", "--id", id, "--subscriber", "alice", "--pattern", pattern, "--wait")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_kafka(JARS, tmp_path_factory.mktemp("certificates")) as kafka:
        for user in {right.who for right in RIGHTS}:
            kafka.add_user(user, _password(user))
        kafka.allow(RIGHTS)
        yield kafka


@pytest.fixture
def users(secured: Secured, tmp_path: Path) -> Users:
    users = Users(secured, tmp_path)
    users.as_("setup", "topics", "create")
    return users


def test_the_commands_of_the_document_give_the_rights_of_its_table() -> None:
    assert sorted(commands(), key=str) == sorted(RIGHTS, key=str)


def test_with_the_rights_of_the_document_all_goes_well_and_no_password_shows(users: Users, secured: Secured) -> None:
    config = users.flags_of("job")
    assert SECRET in Path(config[1]).read_text()
    of_a_store = f'[spark.options]\n"spark.hadoop.fs.s3a.secret.key" = "{SECRET}"\n'
    with_a_store = users.file("store", Path(config[1]).read_text() + of_a_store)
    with job(users, *with_a_store, fresh=True) as first:
        first.running()
        users.subscribe("s1", '{"x": [1]}')
        users.as_("producer", "produce", stdin='{"x": 1}\nno JSON\n')
        first.until("done with the events", lambda: first.total("event_count") == 2)
        users.as_("registrar", "pause", "s1", "--wait")
        users.as_("registrar", "resume", "s1", "--wait")
        # Its rights are enough to ask where topics end.
        first.until("ready", lambda: _asked(first, "/ready").startswith('{"ok": true'))
        shown = [_asked(first, path) for path in ("/", "/status.json", "/metrics", "/health")]
        processes = _command_lines(first)
        assert len(processes) > 1  # the driver and what it started
        first.process.send_signal(signal.SIGTERM)
        assert first.ended() == 0
    users.as_("producer", "produce", stdin='{"x": 1, "again": true}\n')
    with job(users, *config) as second:
        second.running()
        second.until("done with what came meanwhile", lambda: second.total("event_count") == 1)
    assert users.as_("alice", "consume", "alice").splitlines() == ['{"x": 1}', '{"x": 1, "again": true}']
    assert orjson.loads(users.as_("watcher", "subscribers", "--json"))["deliveries"] == 2
    summary = orjson.loads(users.as_("replayer", "replay", "s1", "--from", "1h", "--json"))
    assert summary["delivered"] == 2

    (letter,) = _all(secured, "deadletters")
    assert letter.value() == b"no JSON"
    assert "1 redriven" in users.as_("redriver", "dlq", "redrive", "--all-letters")
    statuses = [orjson.loads(message.value() or b"")["status"] for message in _all(secured, "subscriptions.status")]
    assert statuses == ["accepted", "paused", "accepted"]
    assert users.as_("job", "config", "show").count("(secret)") == 2
    users.as_("job", "config", "show", "--json")

    everything = [*users.written, *first.other, *second.other, *map(str, first.lines + second.lines), *processes]
    everything += shown
    for topic in ("deadletters", "subscriptions.status", "deliveries.alice"):
        everything += [str((message.key(), message.value(), message.headers())) for message in _all(secured, topic)]
    notes = [path for path in (users.directory / "checkpoint").rglob("*") if path.is_file()]
    assert notes
    everything += [str(path.read_bytes()) for path in notes]
    assert not [text for text in everything if SECRET in text]


def test_passwords_are_rotated_by_a_second_user_of_the_same_permissions(users: Users, secured: Secured) -> None:
    """The job's password, as docs/how-to/maintain.md has it: no event is lost or delivered twice."""
    old, new = ([replace(right, who=who) for right in RIGHTS if right.who == "job"] for who in ("old", "new"))
    for user, permissions in (("old", old), ("new", new)):
        secured.add_user(user, _password(user))
        secured.allow(permissions)
    with job(users, *users.flags_of("old")) as first:
        first.running()
        users.subscribe("rotated", '{"turn": [1, 2, 3]}')
        users.as_("producer", "produce", stdin='{"turn": 1}\n')
        first.until("delivered", lambda: first.total("delivery_count") == 1)
    with job(users, *users.flags_of("new")) as second:
        second.running()
        users.as_("producer", "produce", stdin='{"turn": 2}\n')
        second.until("delivered", lambda: second.total("delivery_count") == 1)
        for right in old:
            secured.revoke(right)
        users.as_("producer", "produce", stdin='{"turn": 3}\n')
        second.until("delivered again", lambda: second.total("delivery_count") == 2)
    delivered = [orjson.loads(line) for line in users.as_("alice", "consume", "alice").splitlines()]
    assert [event["turn"] for event in delivered if "turn" in event] == [1, 2, 3]
    with job(users, *users.flags_of("old")) as refused:
        assert refused.ended() == 1


class Filed:
    """A user with the permissions of the job, whose password is in a file."""

    def __init__(self, name: str, users: Users, secured: Secured) -> None:
        self._name, self._secured = name, secured
        self.file = users.directory / f"password-{name}"
        secured.allow([replace(right, who=name) for right in RIGHTS if right.who == "job"])
        self.password(_password(name))
        often = '[kafka.client]\n"connections.max.idle.ms" = "1000"'  # a login after each pause
        settings = secured.settings(name, f"${{file:{self.file}}}").replace("[kafka.client]", often)
        assert SECRET not in settings
        self.flags = users.file(name, settings)

    def password(self, new: str, *jobs: Job) -> None:
        """Change it at the broker and in the file, between which none of these jobs may log in."""
        roots = [psutil.Process(job.process.pid) for job in jobs]
        processes = [process for root in roots for process in (root, *root.children(recursive=True))]
        for process in processes:
            process.suspend()
        self._secured.add_user(self._name, new)
        self.file.write_text(new + "\n")
        for process in processes:
            process.resume()

    def subscribe(self, users: Users) -> None:
        users.subscribe(self._name, f'{{"{self._name}": [1, 2]}}')

    def delivered(self, users: Users) -> list[int]:
        """Return the events of this user's test that alice got."""
        events = [orjson.loads(line) for line in users.as_("alice", "consume", "alice").splitlines()]
        return [event[self._name] for event in events if self._name in event]


def test_a_password_in_a_file_is_changed_while_the_job_runs(users: Users, secured: Secured) -> None:
    """As docs/how-to/maintain.md has it: whoever logs in afterwards, does so with the new password."""
    filed = Filed("filed", users, secured)
    topics = Cluster.of(load(filed.flags[1])).topics()
    with job(users, *filed.flags) as running:
        running.running()
        filed.subscribe(users)
        users.as_("producer", "produce", stdin='{"filed": 1}\n')
        running.until("delivered", lambda: running.total("delivery_count") == 1)
        assert "deliveries.alice" in topics.partitions()
        filed.password(f"new-{_password('filed')}", running)
        time.sleep(3)  # until connections are closed
        assert "deliveries.alice" in topics.partitions()
        users.as_("producer", "produce", stdin='{"filed": 2}\n')
        running.until("delivered again", lambda: running.total("delivery_count") == 2)
    assert filed.delivered(users) == [1, 2]
    shown = users("config", "show", *filed.flags)
    assert shown.count(f"${{file:{filed.file}}}") == 2
    assert SECRET not in shown + "".join([*map(str, running.lines), *running.other])


def test_a_standby_takes_over_with_a_password_that_changed_while_it_waited(users: Users, secured: Secured) -> None:
    filed = Filed("waited", users, secured)
    with job(users, "--standby", *filed.flags, fresh=True) as first:
        first.running()
        filed.subscribe(users)
        users.as_("producer", "produce", stdin='{"waited": 1}\n')
        first.until("delivered", lambda: first.total("delivery_count") == 1)
        with job(users, "--standby", *filed.flags, fresh=True) as second:
            second.until("ready", lambda: any(line["event"] == "standby_ready" for line in second.lines))
            filed.password(f"new-{_password('waited')}", first, second)
            first.process.send_signal(signal.SIGKILL)
            second.running()
            users.as_("producer", "produce", stdin='{"waited": 2}\n')
            second.until("delivered", lambda: second.total("delivery_count") == 1)
    assert filed.delivered(users) == [1, 2]


def test_a_subscriber_reads_no_other_ones_deliveries(users: Users, secured: Secured) -> None:
    said = users.as_("alice", "consume", "bob", code=1)
    assert "error: the topic deliveries.bob cannot be used: Broker: Topic authorization failed" in said
    assert "SECURITY.md" in said


@pytest.mark.parametrize(
    "right",
    [right for right in RIGHTS if right.who == "job" and right.name != "deliveries.*"],
    ids=lambda right: f"{right.kind}-{right.name}",
)
def test_a_right_that_the_job_lacks_ends_it_before_spark_starts(right: Right, users: Users, secured: Secured) -> None:
    secured.revoke(right)
    try:
        said = users.as_("job", "run", code=1)
    finally:
        secured.allow([right])
    assert "authorization failed" in said
    assert right.name.removesuffix("*") in said
    assert "Traceback" not in said


def test_the_doctor_names_each_right_that_the_job_lacks(users: Users, secured: Secured) -> None:
    told = [right for right in RIGHTS if right.who == "job"]
    told = [right for right in told if (right.name, right.operation) != ("deliveries.*", "write")]  # there is none yet
    fine = users.as_("job", "doctor", "--json")
    assert "complete for" in _found(fine, "permissions")
    for right in told:
        secured.revoke(right)
    try:
        command = [*users.command("doctor", "--json"), *users.flags_of("job")]
        done = subprocess.run(command, capture_output=True, text=True, env=users.environment, check=False)
        assert done.returncode == 1, done.stderr
    finally:
        secured.allow(told)
    lacking = _found(done.stdout, "permissions")
    for right in told:
        assert f"{right.operation} on the {right.kind}{'s' if '*' in right.name else ''} {right.name}" in lacking


@pytest.mark.parametrize("command", [("run",), ("consume", "alice"), ("produce",)], ids=lambda c: c[0])
@pytest.mark.parametrize("wrong", ["password", "authority", "no TLS"])
def test_who_does_not_get_in_is_told_why(wrong: str, command: tuple[str, ...], users: Users, secured: Secured) -> None:
    match wrong:
        case "password":
            config, why, code = users.flags_of("job", f"{SECRET}-not"), "Authentication failed", 1
        case "authority":
            certificates(users.directory, "other")
            config = users.flags_of("job", authority=users.directory / "other.pem")
            why, code = "certificate verify failed", 1
        case _:
            config = users.file("plain", f'[kafka]\nbootstrap_servers = "{secured.bootstrap_servers}"\n')
            why, code = "security.protocol = 'plaintext'", 75
    said = users(*command, *config, code=code)
    assert why in said
    assert "Traceback" not in said
    assert SECRET not in said


def test_a_job_whose_spark_cannot_log_in_ends_so_that_its_supervisor_starts_it_again(
    users: Users, secured: Secured
) -> None:
    client, spark, of_spark = secured.settings("job", _password("job")).partition("[kafka.spark]")
    wrong = client + spark + of_spark.replace(_password("job"), f"{SECRET}-not")
    said = users("run", *users.file("half-wrong", wrong), code=75)
    assert "Authentication failed" in said
    assert SECRET not in said


def test_two_clients_that_speak_differently_are_rejected_at_once(users: Users, secured: Secured) -> None:
    settings, _, _ = secured.settings("job", _password("job")).partition("[kafka.spark]")
    said = users("run", *users.file("half", settings), code=1)
    assert "kafka.client and kafka.spark have different security.protocol ('SASL_SSL', 'plaintext')" in said


def _found(said: str, check: str) -> str:
    (found,) = [one["found"] for one in map(orjson.loads, said.splitlines()) if one["check"] == check]
    return str(found)


def _password(user: str) -> str:
    return f"{SECRET}-of-{user}"


def _asked(running: Job, path: str) -> str:
    """Return the job's answer over HTTP."""
    url = next(line["monitoring_url"] for line in running.lines if line["event"] == "monitoring_started")
    try:
        with urllib.request.urlopen(url + path, timeout=PATIENCE_S) as answer:
            body: bytes = answer.read()
            return body.decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


def _command_lines(running: Job) -> list[str]:
    """Return the command lines of the job and all its processes, which are a session of their own."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(directory.name)) == running.process.pid:
                found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it has ended meanwhile
    return found


def _all(secured: Secured, topic: str) -> list[Message]:
    admin = Cluster(secured.bootstrap_servers, secured.client(ADMIN, ADMIN_PASSWORD))
    return [message for message in read(admin, [topic], follow=False) if message is not None]
