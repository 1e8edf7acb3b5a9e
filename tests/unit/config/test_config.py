"""Settings: sources, rejections, and display."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from config import ConfigError, Settings, as_toml, load, load_with_sources, show, unused

EXAMPLE = Path(__file__).resolve().parents[3] / "config" / "example.toml"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("SLUICE_"):
            monkeypatch.delenv(name)


def write(directory: Path, text: str) -> Path:
    file = directory / "sluice.toml"
    file.write_text(text)
    return file


def test_the_example_shows_every_setting_with_its_default() -> None:
    assert tomllib.loads(EXAMPLE.read_text()) == Settings().model_dump()
    assert load(EXAMPLE).model_dump() == load().model_dump()


def test_the_example_describes_each_setting_as_the_model_does() -> None:
    text, described = EXAMPLE.read_text(), {}
    for name, body in re.findall(r"^\[(\S+)\]\n(.*?)(?=^\[|\Z)", text, re.DOTALL | re.MULTILINE):
        if "." in name:  # a table's comment is below its name
            described[name] = body
        for comment, key in re.findall(r"((?:^# .*\n)+)(\w+) = ", body, re.MULTILINE):
            described[f"{name}.{key}"] = comment
    schema = Settings.model_json_schema()
    for section, reference in schema["properties"].items():
        for key, setting in schema["$defs"][reference["$ref"].removeprefix("#/$defs/")]["properties"].items():
            allowed = ", ".join(f'"{value}"' for value in setting.get("enum", ()))
            expected = f"{setting['description']} One of {allowed}." if allowed else setting["description"]
            comment = " ".join(re.findall(r"^# (.*)$", described[f"{section}.{key}"], re.MULTILINE))
            assert comment.split() == expected.split(), f"{section}.{key}"


def test_every_setting_is_described() -> None:
    for section in Settings.model_fields.values():
        assert section.annotation is not None
        for name, field in section.annotation.model_fields.items():
            assert field.description, name


def test_flags_win_over_the_environment_that_over_the_file_that_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, '[events]\ntopic = "file"\n[dead_letters]\ntopic = "file"\n[deliveries]\nprefix = "file."\n')
    monkeypatch.setenv("SLUICE_EVENTS__TOPIC", "environment")
    monkeypatch.setenv("SLUICE_DEAD_LETTERS__TOPIC", "environment")
    settings = load(file, {"events.topic": "flag", "query.name": None})
    assert settings.events.topic == "flag"
    assert settings.dead_letters.topic == "environment"
    assert settings.deliveries.prefix == "file."
    assert settings.query.name == "sluice"


def test_options_pass_through_under_their_own_names(tmp_path: Path) -> None:
    file = write(tmp_path, '[kafka.client]\n"security.protocol" = "SSL"\n[matching.options]\ngroups = 4\n')
    settings = load(file, {"spark.options.spark.driver.memory": "4g"})
    assert settings.kafka.client == {"security.protocol": "SSL"}
    assert settings.spark.options == {"spark.driver.memory": "4g"}
    assert settings.matching.options == {"groups": 4}


def test_the_settings_of_delivery_topics_are_added_to_those_of_their_index_files(tmp_path: Path) -> None:
    text = """[deliveries.topic_config]
"retention.ms" = 86_400_000
"min.cleanable.dirty.ratio" = 0.5
"preallocate" = true
"compression.type" = "lz4"
"index.interval.bytes" = ""
"""
    settings = load(write(tmp_path, text), {"deliveries.topic_config.retention.bytes": "5"})
    assert settings.deliveries.topic_config == {
        "segment.index.bytes": "262144",
        "index.interval.bytes": "",
        "retention.ms": "86400000",
        "min.cleanable.dirty.ratio": "0.5",
        "preallocate": "true",
        "compression.type": "lz4",
        "retention.bytes": "5",
    }
    assert Settings.model_validate(settings.model_dump()).model_dump() == settings.model_dump()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[deliveries]\ntopic_config = 5\n", "deliveries.topic_config = 5: Input should be a valid dictionary"),
        (
            "[deliveries.topic_config]\nretention.ms = 1\n",
            "deliveries.topic_config.retention = {'ms': 1}: Value error, put the whole name in quotes, such as",
        ),
        (
            '[deliveries.topic_config]\n"cleanup.policy" = ["delete"]\n',
            "deliveries.topic_config.cleanup.policy = ['delete']: Value error, write a string, a number, true or false",
        ),
        ('[deliveries.topic_config]\n"retention_ms" = 1\n', "deliveries.topic_config.retention_ms"),
        ("[evnts]\n", "unknown section 'evnts'; did you mean 'events'?"),
        ("[events]\ntopik = 'a'\n", "unknown key events.topik; did you mean 'topic'?"),
        ("events = 5\n", "events is a section, not a value; its keys are topic"),
        ("[events]\ntopic = 'a b'\n", "events.topic = 'a b': String should match pattern"),
        ("[events]\nmax_per_batch = 0\n", "events.max_per_batch = 0: Input should be greater than 0"),
        ("[events\n", "is not TOML"),
        ("[events]\ncodec = 'avro'\n", "schema_registry.url = '': events.codec = 'avro' needs a schema registry"),
        (
            "[events]\ncodec = 'protobuf'\n",
            "schema_registry.url = '': events.codec = 'protobuf' needs a schema registry",
        ),
        (
            "[events]\ncodec = 'xml'\n",
            "events.codec = 'xml': Input should be 'json', 'cloudevents', 'avro' or 'protobuf'",
        ),
        (
            "[deliveries]\nprefix = 'e'\n",
            "events.topic = 'events': begins with deliveries.prefix = 'e', so it could be",
        ),
        ("[dead_letters]\ntopic = 'deliveries.dead'\n", "dead_letters.topic = 'deliveries.dead': begins with"),
        ("[dead_letters]\ntopic = 'deliveries_dead'\n", "dead_letters.topic = 'deliveries_dead': begins with"),
        ("[metrics]\ntopic = 'events'\n", "metrics.topic = 'events': is the topic of events.topic too"),
        ("[metrics]\ntopic = 'a b'\n", "metrics.topic"),
        ("[events]\ntopic = 'deadletters'\n", "dead_letters.topic = 'deadletters': is the topic of events.topic too"),
        ("[events]\ntopic = 'subscriptions_status'\n", "'subscriptions.status': is the topic of events.topic too"),
        ("[deliveries]\nlayout = 'shared'\ntopic = 'events'\n", "deliveries.topic = 'events': is the topic of events"),
        (f"[deliveries]\nprefix = '{'x' * 50}'\n", "has more than 49 characters"),
        ("[schema_registry]\nurl = 'http://a:hunter2@r'\n", "schema_registry.url = 'http://(secret)@r': String should"),
        (
            "[monitoring]\ntraces = 'localhost:4318'\n",
            "monitoring.traces = 'localhost:4318': Value error, write scheme, host and path, such as http://127.0.0.1:4318",
        ),
        (
            "[monitoring]\ntraces = 'http://a:hunter2@c/v1/traces'\n",
            "monitoring.traces = 'http://(secret)@c/v1/traces': Value error, write scheme",
        ),
        (
            "[monitoring]\ntoken = 'hunter2'\n",
            "monitoring.token = (secret): Value error, a token needs at least 16 letters, digits and signs",
        ),
        (
            "[kafka.client]\nsasl.password = 'hunter2'\n",
            "kafka.client.sasl = (secret): Value error, write the whole name as one key, such as",
        ),
        ("[kafka]\nclient = 'sasl.password=hunter2'\n", "kafka.client = (secret): Input should be a valid dictionary"),
        ("[query]\ncheckpoint = ''\n", "query.checkpoint = '': String should have at least 1 character"),
        ("[monitoring]\ntoken = 'with a space in it'\n", "monitoring.token = (secret): Value error, a token needs"),
    ],
)
def test_what_a_file_may_not_say(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(write(tmp_path, text))
    assert reason in str(error.value)
    assert "hunter2" not in str(error.value)


def test_variables_that_kubernetes_sets_for_a_service_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    service = "SLUICE_UI_SVC"
    for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_WEB_UI", "PORT", "PORT_4040_TCP", "PORT_4040_TCP_ADDR"):
        monkeypatch.setenv(f"{service}_{name}", "10.0.0.1")
    load()
    monkeypatch.setenv("SLUICE_EVENTS_TOPIC", "orders")
    with pytest.raises(ConfigError, match="unknown section 'events_topic'"):
        load()


def test_lists_and_tables_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in ("alice, bob", '["alice", "bob"]'):
        monkeypatch.setenv("SLUICE_METRICS__SUBSCRIBERS", names)
        assert load().metrics.subscribers == ["alice", "bob"]
    monkeypatch.setenv("SLUICE_KAFKA__CLIENT", "no JSON")
    with pytest.raises(ConfigError, match=r"environment SLUICE_…: kafka\.client is a table; write it as JSON"):
        load()
    monkeypatch.setenv("SLUICE_KAFKA__CLIENT", '{"client.id": "a", "socket.timeout.ms": "100"}')
    assert load(flags={"kafka.client.client.id": "b"}).kafka.client == {"client.id": "b", "socket.timeout.ms": "100"}
    assert load(flags={"spark.options": '{"spark.driver.memory": "4g"}'}).spark.options == {"spark.driver.memory": "4g"}


def test_tenants_in_the_environment_and_in_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, '[subscriptions.tenants.acme]\nprefix = "acme."\n')
    monkeypatch.setenv("SLUICE_SUBSCRIPTIONS__TENANTS__ACME__TOPIC", "of.acme")
    monkeypatch.setenv(
        "SLUICE_SUBSCRIPTIONS__TENANTS__OTHER", '{"prefix": "other.", "topic": "t", "status_topic": "s"}'
    )
    tenants = load(file, {"subscriptions.tenants.acme.status_topic": "statuses"}).subscriptions.tenants
    assert (tenants["acme"].prefix, tenants["acme"].topic, tenants["acme"].status_topic) == (
        "acme.",
        "of.acme",
        "statuses",
    )
    assert tenants["other"].prefix == "other."
    with pytest.raises(ConfigError, match=r"tenants\.acme is a table; write it as JSON"):
        load(flags={"subscriptions.tenants.acme": "x"})


@pytest.mark.parametrize("setting", [{"metrics.subscriptions": "true"}, {"metrics.subscribers": "alice"}])
def test_metrics_that_need_the_topic_have_one(setting: dict[str, str]) -> None:
    load(flags=setting)
    with pytest.raises(ConfigError, match=r"metrics\.sub.* needs a topic; set metrics\.topic"):
        load(flags={**setting, "metrics.topic": ""})


def test_rates_and_options_of_an_algorithm_can_be_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MATCHING__ADAPTIVE_RATES", "[0.1, 0.2]")
    assert load().matching.adaptive_rates == [0.1, 0.2]
    settings = load(flags={"matching.adaptive_rates": "0.1,0.5", "matching.options": '{"g": 32}'})
    assert settings.matching.adaptive_rates == [0.1, 0.5]
    assert settings.matching.options == {"g": 32}


def test_the_name_of_an_option_in_the_environment_keeps_its_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_SPARK__OPTIONS__spark.executor.memoryOverhead", "1g")
    monkeypatch.setenv("SLUICE_SPARK__OPTIONS__SPARK__EXECUTOR__CORES", "2")
    assert load().spark.options == {"spark.executor.memoryOverhead": "1g", "spark.executor.cores": "2"}


def test_variables_in_small_letters_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("sluice_events__topic", "orders")
    assert load().events.topic == "events"


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"kafka.client": "{}", "kafka.client.security.protocol": "SSL"}, "kafka.client.security.protocol cannot be"),
        ({"events": "1", "events.topic": "x"}, "events.topic cannot be set, because events is set as a whole"),
        ({"events.topic": "x", "events": "1"}, "events cannot be set as a whole, because parts of it are set"),
        ({"kafka.client.sasl.username": "u", "kafka.client": '{"sasl.password": "hunter2"}'}, "kafka.client cannot be"),
        ({"kafka.client": '{"sasl.password": "hunter2"}', "kafka.client.sasl.username": "u"}, "kafka.client is set as"),
    ],
)
def test_a_setting_within_one_that_has_a_value_is_rejected(flags: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as rejected:
        load(flags=flags)
    assert "hunter2" not in str(rejected.value)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(write(tmp_path, "[evnts]\n[query]\nnmae = 'x'\n"), {"log.levle": "info"})
    assert len(str(error.value).splitlines()) == 3


def test_a_missing_file_and_an_unknown_variable_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "none.toml")
    monkeypatch.setenv("SLUICE_TEST_KAFKA", "not a setting")
    load()
    monkeypatch.setenv("SLUICE_QUERY__NMAE", "x")
    with pytest.raises(ConfigError, match=r"unknown key query\.nmae; did you mean 'name'"):
        load()


def test_a_codec_with_schemas_has_a_registry() -> None:
    settings = load(flags={"events.codec": "avro", "schema_registry.url": "https://registry:8081/"})
    assert settings.schema_registry.url == "https://registry:8081/"


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("", True),
        ("http://127.0.0.1:4318/v1/traces", True),
        ("https://[::1]:4318/v1/traces", True),
        ("https://collector.example/otlp", True),
        ("http://127.0.0.1:4318", False),
        ("http://127.0.0.1:4318/", False),
        ("grpc://127.0.0.1:4317/v1/traces", False),
        ("http:///v1/traces", False),
        ("http://127.0.0.1:99999/v1/traces", False),
        ("http://127.0.0.1:0/v1/traces", False),
        ("http://[::1/v1/traces", False),
        ("http://c/v1/traces?token=t", False),
        ("http://c/v1/ traces", False),
    ],
)
def test_traces_go_to_a_whole_address_without_secrets(address: str, good: bool) -> None:
    flags = {"monitoring.traces": address}
    if good:
        assert load(flags=flags).monitoring.traces == address
    else:
        with pytest.raises(ConfigError, match=r"monitoring\.traces"):
            load(flags=flags)


@pytest.mark.parametrize(
    ("checkpoint", "path"),
    [
        ("/data/checkpoint", "/data/checkpoint"),
        ("file:///data/checkpoint", "/data/checkpoint"),
        ("file:/data/checkpoint", "/data/checkpoint"),
        ("FILE://localhost/data/checkpoint", "/data/checkpoint"),
        ("file:///data/my%20checkpoint%23", "/data/my checkpoint#"),
        ("/data/my%20checkpoint", "/data/my%20checkpoint"),
        ("hdfs:///data/checkpoint", "hdfs:///data/checkpoint"),
    ],
)
def test_a_checkpoint_by_the_url_of_a_directory_is_that_directory(checkpoint: str, path: str) -> None:
    assert load(flags={"query.checkpoint": checkpoint}).query.checkpoint == path


@pytest.mark.parametrize("url", ["file://data/checkpoint", "file:checkpoint", "file://", "file:///a?b", "file:///a#b"])
def test_a_url_that_is_no_directory_here_is_rejected(url: str) -> None:
    with pytest.raises(ConfigError, match=r"query\.checkpoint.*write a path, or file:// and an absolute path"):
        load(flags={"query.checkpoint": url})


def test_a_topic_may_begin_like_the_prefix_where_no_topic_is_made_of_that() -> None:
    load(flags={"deliveries.layout": "shared", "dead_letters.topic": "deliveries.dead"})
    load(flags={"deliveries.prefix": "x" * 49, "deliveries.topic": "events"})


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().query.name = "other"


def test_secrets_are_not_shown() -> None:
    secrets = {
        "kafka.client.sasl.password": "hunter2",
        "kafka.client.ssl.key.pem": "hunter2",
        "schema_registry.options.basic.auth.user.info": "alice:hunter2",
        "schema_registry.options.bearer.auth.token": "hunter2",
        "schema_registry.options.ssl.key.password": "hunter2",
        "kafka.spark.sasl.jaas.config": 'required username="a" password="hunter2";',
        "spark.options.spark.hadoop.fs.s3a.secret.key": "hunter2",
    }
    shown = str(show(load(flags=secrets)))
    assert "hunter2" not in shown
    assert "sasl.password" in shown
    for name in ("kafka.client.sasl.password", "schema_registry.options.basic.auth.user.info"):
        with pytest.raises(ConfigError) as error:
            load(flags={name: {"hunter2": 1}})
        assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "is_shown"),
    [
        ("kafka.client.sasl.password", "${file:/run/secrets/kafka}", True),
        ("kafka.client.sasl.password", "hunter2${file:/run/secrets/kafka}", False),
        ("monitoring.token", "${file:/t}", True),
        ("kafka.spark.sasl.jaas.config", 'a.b.C required username="u" password="${file:/p}";', True),
        ("kafka.spark.sasl.jaas.config", 'a.b.C required username="${file:/u}" password="hunter2";', False),
        ("kafka.spark.sasl.jaas.config", 'a.b.C required password="${file:/u}" hunter2;', False),
    ],
)
def test_a_reference_to_a_file_is_shown_unless_there_is_a_secret_beside_it(
    name: str, value: str, is_shown: bool
) -> None:
    section, key, *option = name.split(".", 2)
    shown = show(load(flags={name: value}))[section][key]
    assert (shown[option[0]] if option else shown) == (value if is_shown else "(secret)")


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {
            "kafka.client.sasl.password": "${file:/run/secrets/kafka}",
            "kafka.spark.sasl.jaas.config": 'a.b.C required username="u" password="${file:/run/secrets/kafka}";',
            "monitoring.token": "${file:/t}",
        },
        {
            "kafka.client.sasl.username": "u",
            "kafka.client.ssl.ca.location": 'a "b" \\ c\n\x7fé',
            "spark.options.a.b": "1",
        },
        {"events.topics": "orders,trades.eu", "events.codecs": {"trades.eu": "cloudevents"}},
        {"events.topic_pattern": "a.*", "matching.options": {"g": 32, "deep": {"x y": [1.5, True, "z"]}}},
        {"deliveries.topic_config.retention.ms": 5, "matching.adaptive_rates": [0.5], "quotas.over": "drop"},
        {
            "subscriptions.tenants": {
                "acme": {"topic": "a", "status_topic": "b", "subscribers": ["x"], "pattern": {"c.d": [{"prefix": "e"}]}}
            }
        },
    ],
    ids=["defaults", "files", "options", "topics", "pattern", "numbers", "tenants"],
)
def test_shown_settings_are_read_back(flags: dict[str, Any], tmp_path: Path) -> None:
    settings = load(flags=flags)
    file = write(tmp_path, as_toml(show(settings), {}, unused(settings)))
    assert show(load(file)) == show(settings)


def test_shown_settings_name_their_source_and_hide_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MONITORING__TOKEN", "0123456789abcdef")
    monkeypatch.setenv("SLUICE_EVENTS__TOPICS", "a,b")
    file = write(tmp_path, '[events]\nmax_per_batch = 5\n[kafka.client]\n"sasl.password" = "hunter2"\n')
    flags = {"kafka.client.sasl.username": "u", "query.name": "q", "log.level": None}
    settings = load(file, flags)
    text = as_toml(show(settings), load_with_sources(file, flags).sources, unused(settings))
    for line in (
        'name = "q"  # flag',
        'client = { "sasl.username" = "u" }  # file and flag',
        '# client."sasl.password" = "(secret)"',
        '# topic = "events"  # unused',
        'topics = ["a", "b"]  # environment',
        "max_per_batch = 5  # file",
        '# token = "(secret)"  # environment',
        'level = "info"',
    ):
        assert line in text.splitlines()
    monkeypatch.delenv("SLUICE_MONITORING__TOKEN")
    monkeypatch.delenv("SLUICE_EVENTS__TOPICS")
    again = load(write(tmp_path, text))
    assert (again.events, again.query) == (settings.events, settings.query)
    assert again.kafka.client == {"sasl.username": "u"}


def test_several_topics_of_events_take_the_place_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[events]\ntopics = ["orders", "trades.eu"]\n[events.codecs]\n"trades.eu" = "cloudevents"\n'
    events = load(write(tmp_path, text)).events
    assert events.names == ("orders", "trades.eu")
    assert [events.codec_of(topic) for topic in events.names] == ["json", "cloudevents"]
    assert load().events.names == ("events",)
    monkeypatch.setenv("SLUICE_EVENTS__TOPICS", "a, b")
    assert load().events.names == ("a", "b")
    assert load(flags={"events.topics": "c,d"}).events.names == ("c", "d")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"events.topic": "a", "events.topics": ["b"]}, "events.topic = 'a': events.topics = .* replaces it"),
        (
            {"events.topic": "a", "events.topic_pattern": "b.*"},
            "events.topic = 'a': events.topic_pattern = .* replaces",
        ),
        (
            {"events.topics": ["a"], "events.topic_pattern": "b"},
            "events.topics = .* events.topic_pattern = 'b' replaces",
        ),
        ({"events.topic_pattern": "a("}, "events.topic_pattern = 'a.': .* is not a regular expression"),
        ({"events.topic_pattern": "a.*", "events.codecs": {"b": "json"}}, "events.topic_pattern does not match it"),
        ({"events.topics": ["a", "b", "a"]}, "events.topics = 'a': is the topic of events.topics too"),
        ({"events.topics": ["a.b", "a_b"]}, "differs from it only in dots and underscores"),
        ({"events.topics": ["a", "subscriptions"]}, "subscriptions.topic = .* is the topic of events.topics too"),
        ({"events.topics": ["a", "deliveries.b"]}, "begins with deliveries.prefix"),
        (
            {"events.topics": ["orders"], "events.codecs": {"order": "avro"}},
            "not a topic of events; did you mean 'orders'",
        ),
        ({"events.topic": "a", "events.codecs": {"a": "avro"}}, "events.codecs.a = 'avro' needs a schema registry"),
    ],
)
def test_topics_of_events_that_contradict_other_settings_are_rejected(flags: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(flags=flags)


TENANTS = "[subscriptions.tenants]\n"
ACME = 'acme = { topic = "acme", status_topic = "acme.status", prefix = "acme-", subscribers = ["bob"] }\n'


def test_a_tenant_is_a_topic_with_bounds(tmp_path: Path) -> None:
    file = write(
        tmp_path, TENANTS + ACME.replace(" }", ', pattern = { x = [{ exists = true }], "$or" = [{ y = [1] }] } }')
    )
    (acme,) = load(file).subscriptions.tenants.values()
    assert acme.pattern == {"x": [{"exists": True}], "$or": [{"y": [1]}]}
    assert (acme.prefix, acme.subscribers, acme.max_subscriptions) == ("acme-", ["bob"], 0)


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (
            'topic = "zoo", status_topic = "zoo.status"',
            "subscriptions.tenants.zoo: has no subscribers; set",
        ),
        ('topic = "zoo", prefix = "zoo-"', "status_topic"),
        ('topic = "zoo", status_topic = "zoo", prefix = "zoo-"', "is the topic of subscriptions.tenants.zoo.topic too"),
        ('topic = "acme", status_topic = "z", prefix = "zoo-"', "is the topic of subscriptions.tenants.acme.topic too"),
        ('topic = "deliveries.z", status_topic = "z", prefix = "zoo-"', "begins with deliveries.prefix"),
        (
            'topic = "zoo", status_topic = "z", prefix = "acme-z"',
            "its subscribers 'acme-z*' overlap with 'acme-*' of",
        ),
        (
            'topic = "zoo", status_topic = "z", prefix = "a"',
            "its subscribers 'a*' overlap with 'acme-*' of the tenant 'acme'",
        ),
        ('topic = "zoo", status_topic = "z", prefix = "b"', "its subscribers 'b*' overlap with 'bob' of"),
        (
            'topic = "zoo", status_topic = "z", subscribers = ["zoo", "acme-7"]',
            "its subscribers 'acme-7' overlap with 'acme-*'",
        ),
        (
            'topic = "zoo", status_topic = "z", subscribers = ["bob"]',
            "its subscribers 'bob' overlap with 'bob' of",
        ),
        ('topic = "zoo", status_topic = "z", prefix = "no/thing"', "subscriptions.tenants.zoo.prefix"),
        ('topic = "zoo", status_topic = "z", prefix = "zoo-", patterns = {}', "subscriptions.tenants.zoo.patterns"),
        ('topic = "zoo", status_topic = "z", prefix = "zoo-", max_subscriptions = -1', "max_subscriptions"),
    ],
)
def test_a_tenant_that_clashes_is_an_error_that_names_both(other: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(write(tmp_path, f"{TENANTS}{ACME}zoo = {{ {other} }}\n"))
    assert problem in str(error.value)


@pytest.mark.parametrize("other", ['subscribers = ["acme", "bobby"]', 'prefix = "bo", subscribers = []'])
def test_tenants_whose_subscribers_are_apart_are_taken(other: str, tmp_path: Path) -> None:
    acme = ACME.replace('"bob"', '"b"')
    load(write(tmp_path, f'{TENANTS}{acme}zoo = {{ topic = "zoo", status_topic = "z", {other} }}\n'))
