"""The files for containers, Kubernetes and YARN agree with each other, the settings and the image."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pyspark
import pytest
from ruamel.yaml import YAML

from config import Settings, load
from rig.broker import PROPERTIES
from streaming.version import VERSION
from tests.unit.test_architecture import HOME

KUBERNETES = HOME / "deploy" / "kubernetes"
OPERATOR = HOME / "deploy" / "spark-operator"
SETTINGS = [KUBERNETES / "sluice.toml", HOME / "deploy" / "yarn" / "sluice.toml", OPERATOR / "sluice.toml"]
KAFKA = "${KAFKA_IMAGE:-apache/kafka:4.3.1}"
IMAGE = f"sluice:{VERSION}"
DOCKERFILE = (HOME / "docker" / "Dockerfile").read_text()
ENTRY = HOME / "docker" / "entry"
MANIFESTS = sorted([*KUBERNETES.glob("*.yaml"), OPERATOR / "application.yaml", HOME / "docker" / "compose.yaml"])
COMPOSE = YAML(typ="safe", pure=True).load((HOME / "docker" / "compose.yaml").read_text())
REPLICATED = YAML(typ="safe", pure=True).load((HOME / "docker" / "replicated.yaml").read_text())


def found(file: str, kind: str) -> dict[str, Any]:
    (document,) = (
        d for d in YAML(typ="safe", pure=True).load_all((KUBERNETES / file).read_text()) if d["kind"] == kind
    )
    return dict(document)


POD = found("driver.yaml", "StatefulSet")["spec"]["template"]["spec"]
(DRIVER,) = POD["containers"]
OPTIONS = tomllib.loads(SETTINGS[0].read_text())["spark"]["options"]


@pytest.mark.parametrize("file", SETTINGS, ids=lambda file: file.parent.name)
def test_the_job_takes_the_settings(file: Path) -> None:
    assert load(file) != Settings()


def test_spark_submit_on_yarn_has_what_run_has_there() -> None:
    lines = (HOME / "deploy" / "yarn" / "spark.conf").read_text().splitlines()
    given = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    options = load(SETTINGS[1]).spark.options
    assert options.items() - given.items() == {("spark.submit.deployMode", "client")}
    assert f"spark-sql-kafka-0-10_2.13:{pyspark.__version__}" in given["spark.jars.packages"]


def test_the_drivers_environment_is_settings() -> None:
    for name in {variable["name"] for variable in DRIVER["env"]} - {"XDG_CACHE_HOME"}:
        section, key = name.removeprefix("SLUICE_").lower().split("__")
        annotation = Settings.model_fields[section].annotation
        assert annotation is not None
        assert key in annotation.model_fields, name
    assert load(KUBERNETES / "sluice.toml").kafka.bootstrap_servers != Settings().kafka.bootstrap_servers


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_every_image_is_ours_and_of_this_version_but_kafkas_and_those_that_watch(file: Path) -> None:
    others = [image for image in re.findall(r"image: *(\S+)", file.read_text()) if image not in (IMAGE, KAFKA)]
    assert [other.partition(":")[0] for other in others] in ([], ["prom/prometheus", "grafana/grafana"])
    assert all(re.search(r":v?\d", other) for other in others)


def test_kafkas_own_image_has_the_version_of_the_embedded_broker_unless_told_otherwise() -> None:
    (version,) = re.findall(r'name="kafka_2.13" rev="([^"]+)"', (HOME / "config" / "ivy.xml").read_text())
    assert COMPOSE["services"]["kafka"]["image"] == KAFKA == f"${{KAFKA_IMAGE:-apache/kafka:{version}}}"


def test_a_broker_is_healthy_when_its_port_is_open() -> None:
    """Without a JVM for each look: three of them together took a busy machine longer than the check may take."""
    command = COMPOSE["services"]["kafka"]["healthcheck"]["test"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        of_this = [word.replace("9092", str(server.getsockname()[1])) for word in command[1:]]
        assert command[0] == "CMD"
        assert subprocess.run(of_this, check=False).returncode == 0
    assert subprocess.run(of_this, check=False, capture_output=True).returncode != 0


def test_a_replicated_kafka_is_three_brokers_that_know_each_other_and_their_clients_know_all() -> None:
    added = REPLICATED["services"]
    brokers = {name: service for name, service in added.items() if name.startswith("kafka")}
    alone = COMPOSE["services"]["kafka"]["environment"]
    for name, service in brokers.items():
        environment = {**alone, **service["environment"]}
        assert environment["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{name}:9092"
        voters = dict(voter.split("@") for voter in environment["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(","))
        assert voters[environment["KAFKA_NODE_ID"]] == f"{name}:9093"
        assert sorted(voters.values()) == sorted(f"{broker}:9093" for broker in brokers)
        of_three = ("DEFAULT", "OFFSETS_TOPIC", "TRANSACTION_STATE_LOG")
        assert {environment[f"KAFKA_{topic}_REPLICATION_FACTOR"] for topic in of_three} == {"3"}
        assert environment["KAFKA_MIN_INSYNC_REPLICAS"] == environment["KAFKA_TRANSACTION_STATE_LOG_MIN_ISR"] == "2"
        if name != "kafka":
            assert service["extends"] == {"file": "compose.yaml", "service": "kafka"}
            assert service["volumes"] == [f"{name}:{alone['KAFKA_LOG_DIRS']}"]
            assert name in REPLICATED["volumes"]
    clients = [name for name, service in COMPOSE["services"].items() if service.get("image") == IMAGE]
    assert sorted(clients) == sorted(added.keys() - brokers.keys())
    for name in clients:
        environment = added[name]["environment"]
        assert environment["SLUICE_KAFKA__BOOTSTRAP_SERVERS"] == ",".join(f"{broker}:9092" for broker in brokers)
        assert environment["SLUICE_DELIVERIES__REPLICATION_FACTOR"] == "3"
    assert added["topics"]["command"] == "topics create --replication-factor 3"


def test_a_pod_that_was_never_ready_is_replaced_once_its_settings_are_right() -> None:
    assert found("driver.yaml", "StatefulSet")["spec"]["podManagementPolicy"] == "Parallel"


def test_what_builds_and_names_the_image_agrees_with_what_runs_it() -> None:
    assert DRIVER["image"] == OPTIONS["spark.kubernetes.container.image"] == IMAGE
    assert f"--tag {IMAGE} " in (HOME / "Makefile").read_text()
    assert not [file for file in HOME.glob("d*/**/*") if file.is_file() and b"sluice:latest" in file.read_bytes()]


def test_no_file_names_another_version_of_sluice() -> None:
    folders = [HOME / "docker", HOME / "deploy"]
    files = [HOME / "Makefile", HOME / "CITATION.cff", *(file for folder in folders for file in folder.rglob("*.*"))]
    named = re.compile(r"(?:sluice:|/version: |^version: )(\d+\.[\w.]*\d)", re.MULTILINE)
    names = [(file, version) for file in files if file.is_file() for version in named.findall(file.read_text())]
    assert len(names) > 9
    assert not [(file, version) for file, version in names if version != VERSION]
    assert f'image.version="{VERSION}"' in DOCKERFILE
    assert f"--tag {IMAGE} " in DOCKERFILE


def test_the_image_fetches_jars_with_the_files_that_it_has_copied_by_then(tmp_path: Path) -> None:
    """Few of them, so that a change of code does not fetch the jars again."""
    before, _, _ = DOCKERFILE.partition("COPY --from=code")
    ((command,),) = [re.findall(r'python -c "(.*?)" ', before, re.DOTALL)]
    for line in re.findall(r"^COPY ((?:streaming|config)/.*)$", before, re.MULTILINE):
        *files, directory = line.split()
        (tmp_path / directory).mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(HOME / file, tmp_path / directory)
    log = "jars.fetch = lambda chosen, config, to: print(*sorted(p.name for p in config.iterdir()), chosen.pins, to)"
    imports, fetch = command.replace("\\\n", " ").rsplit(";", 1)
    done = subprocess.run(
        [sys.executable, "-c", f"{imports}\n{log}\n{fetch.strip()}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.stdout.split() == ["ivy.xml", "ivysettings.xml", "ivy.xml", "jars"], done.stderr


def test_driver_and_executors_are_the_user_of_the_image_and_not_root() -> None:
    ((user, group),) = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    assert f"--uid {user} " in DOCKERFILE
    wanted = {"runAsNonRoot": True, "runAsUser": int(user), "runAsGroup": int(group), "fsGroup": int(group)}
    executor = found("executor.yaml", "Pod")["spec"]
    for pod in (POD, executor):
        assert pod["securityContext"] == wanted
        (container,) = pod["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert not container["securityContext"]["allowPrivilegeEscalation"]


def test_executors_find_the_driver_and_probes_its_monitoring() -> None:
    service = found("driver.yaml", "Service")
    stateful = found("driver.yaml", "StatefulSet")
    name = service["metadata"]["name"]
    assert stateful["spec"]["serviceName"] == name
    assert stateful["spec"]["replicas"] == 1
    pod = f"{stateful['metadata']['name']}-0"
    assert OPTIONS["spark.kubernetes.driver.pod.name"] == pod
    assert OPTIONS["spark.driver.host"] == f"{pod}.{name}"
    assert service["spec"]["publishNotReadyAddresses"]
    assert service["spec"]["selector"].items() <= stateful["spec"]["template"]["metadata"]["labels"].items()
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert ports == {port["name"]: port["containerPort"] for port in DRIVER["ports"]}
    environment = {variable["name"]: variable.get("value") for variable in DRIVER["env"]}
    assert {name: str(port) for name, port in ports.items()} == {
        "driver": OPTIONS["spark.driver.port"],
        "blocks": OPTIONS["spark.driver.blockManager.port"],
        "monitoring": environment["SLUICE_MONITORING__PORT"],
    }
    probes = {name: DRIVER[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {probe["port"] for probe in probes.values()} == {"monitoring"}
    assert [probe["path"] for probe in probes.values()] == ["/health", "/health", "/ready"]


def test_the_index_files_of_composes_kafka_are_as_small_as_the_embedded_ones() -> None:
    environment = COMPOSE["services"]["kafka"]["environment"]
    for name in ("log.index.size.max.bytes", "log.index.interval.bytes"):
        value = environment[f"KAFKA_{name.replace('.', '_').upper()}"]
        assert f"{name}={value}" in PROPERTIES.splitlines()


def test_compose_asks_the_job_itself_whether_it_is_healthy() -> None:
    services = YAML(typ="safe", pure=True).load((HOME / "docker" / "compose.yaml").read_text())["services"]
    job = services["sluice"]
    port = job["environment"]["SLUICE_MONITORING__PORT"]
    assert f"http://127.0.0.1:{port}/health" in job["healthcheck"]["test"][-1]
    assert job["environment"]["SLUICE_QUERY__CHECKPOINT"].startswith(job["volumes"][0].split(":")[1] + "/")
    for service in services.values():
        assert service["cap_drop"] == ["ALL"]
        assert service["init"]


def test_the_checkpoint_and_the_settings_are_where_volumes_are() -> None:
    mounts = {mount["name"]: mount["mountPath"] for mount in DRIVER["volumeMounts"]}
    (claim,) = found("driver.yaml", "StatefulSet")["spec"]["volumeClaimTemplates"]
    secrets, volume, temporary = sorted(POD["volumes"], key=lambda volume: str(volume["name"]))
    assert mounts.keys() == {claim["metadata"]["name"], secrets["name"], volume["name"], temporary["name"]}
    environment = {variable["name"]: variable.get("value") for variable in DRIVER["env"]}
    assert environment["SLUICE_QUERY__CHECKPOINT"].startswith(mounts[claim["metadata"]["name"]] + "/")
    (generated,) = found("kustomization.yaml", "Kustomization")["configMapGenerator"]
    assert generated["name"] == volume["configMap"]["name"]
    used = [DRIVER["args"][-1], OPTIONS["spark.kubernetes.executor.podTemplateFile"]]
    assert used == [f"{mounts[volume['name']]}/{file}" for file in generated["files"]]


def test_who_runs_the_pods_exists_and_is_bound_to_the_rights() -> None:
    documents = list(YAML(typ="safe", pure=True).load_all((KUBERNETES / "rights.yaml").read_text()))
    accounts = {d["metadata"]["name"] for d in documents if d["kind"] == "ServiceAccount"}
    executor = OPTIONS["spark.kubernetes.authenticate.executor.serviceAccountName"]
    assert accounts == {POD["serviceAccountName"], executor}
    (binding,) = (d for d in documents if d["kind"] == "RoleBinding")
    assert [subject["name"] for subject in binding["subjects"]] == [POD["serviceAccountName"]]


def test_the_operators_application_is_the_job_in_our_image() -> None:
    application = YAML(typ="safe", pure=True).load((OPERATOR / "application.yaml").read_text())["spec"]
    assert (application["type"], application["mode"]) == ("Python", "cluster")
    assert application["sparkVersion"] == pyspark.__version__
    assert application["image"] == IMAGE
    assert application["mainApplicationFile"] == "local:///app/run_stream.py"
    driver, executor = application["driver"], application["executor"]
    (settings,) = driver["configMaps"]
    assert application["arguments"] == ["run", "--config", f"{settings['path']}/{SETTINGS[2].name}"]
    assert "://" in load(SETTINGS[2]).query.checkpoint
    assert [variable["name"] for variable in driver["env"]] == [
        variable["name"]
        for variable in DRIVER["env"]
        if variable["name"] not in ("SLUICE_QUERY__CHECKPOINT", "XDG_CACHE_HOME")  # in a volume
    ]
    mounted = [mount for mount in DRIVER["volumeMounts"] if mount["name"] == "secrets"]
    assert application["volumes"] == [volume for volume in POD["volumes"] if volume["name"] == "secrets"]
    for pod in (driver, executor):
        assert pod["volumeMounts"] == mounted
        assert pod["podSecurityContext"] == POD["securityContext"]
        assert {**pod["securityContext"], "readOnlyRootFilesystem": True} == DRIVER["securityContext"]
    assert str(executor["instances"]) == OPTIONS["spark.executor.instances"]


def test_kustomize_makes_all_of_it() -> None:
    if not shutil.which("kubectl"):
        pytest.skip("there is no kubectl")
    command = ["kubectl", "kustomize", str(KUBERNETES)]
    documents = list(
        YAML(typ="safe", pure=True).load_all(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    )
    kinds = [document["kind"] for document in documents]
    assert sorted(kinds) == [
        "ConfigMap",
        "CronJob",
        "Namespace",
        "NetworkPolicy",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "ServiceAccount",
        "StatefulSet",
    ]
    (settings,) = (d for d in documents if d["kind"] == "ConfigMap")
    (stateful,) = (d for d in documents if d["kind"] == "StatefulSet")
    (cron,) = (d for d in documents if d["kind"] == "CronJob")
    for template in (stateful["spec"]["template"], cron["spec"]["jobTemplate"]["spec"]["template"]):
        (volume,) = (v for v in template["spec"]["volumes"] if "configMap" in v)
        assert volume["configMap"]["name"] == settings["metadata"]["name"]
    assert {d["metadata"]["namespace"] for d in documents if d["kind"] != "Namespace"} == {"sluice"}
    assert OPTIONS["spark.kubernetes.namespace"] == "sluice"


def run_entry(tmp_path: Path, *arguments: str, **environment: str) -> list[str]:
    """Return the program that it becomes: name and arguments."""
    app, programs = tmp_path / "app", tmp_path / "programs"
    (app / ".venv" / "lib" / "python3.11" / "site-packages" / "pyspark" / "jars").mkdir(parents=True)
    for program in (app / ".venv" / "bin" / "python", app / ".venv" / "bin" / "spark-submit", programs / "java"):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$(basename "$0")" "$@" "in $(pwd)"\n')
        program.chmod(0o755)
    entry = tmp_path / "entry"
    entry.write_text(ENTRY.read_text().replace("/app/", f"{app}/"))
    path = f"{programs}:{os.environ['PATH']}"
    command = ["bash", str(entry), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": path, **environment})
    return done.stdout.replace(f"{app}/", "/app/").splitlines()


def test_the_image_is_the_command_line(tmp_path: Path) -> None:
    assert f'ENTRYPOINT ["/app/{ENTRY.relative_to(HOME)}"]' in DOCKERFILE
    assert f"!{ENTRY.relative_to(HOME)}" in (HOME / ".dockerignore").read_text().splitlines()
    assert os.access(ENTRY, os.X_OK)
    assert run_entry(tmp_path, "run", "--set", "a=b c")[:-1] == [
        "python",
        "/app/run_stream.py",
        "run",
        "--set",
        "a=b c",
    ]


def test_the_image_is_a_driver_where_spark_starts_it_as_one(tmp_path: Path) -> None:
    given = ["--properties-file", "/opt/spark/conf/spark.properties", "local:///app/run_stream.py", "run", "a b"]
    program, *command = run_entry(tmp_path, "driver", *given, SPARK_DRIVER_BIND_ADDRESS="10.0.0.7")
    assert program == "spark-submit"
    assert command[:4] == ["--deploy-mode", "client", "--conf", "spark.driver.bindAddress=10.0.0.7"]
    assert command[4:-1] == given


def test_the_image_is_an_executor_where_spark_starts_it_as_one(tmp_path: Path) -> None:
    given = {
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@sluice-0.sluice:7078",
        "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        "SPARK_APPLICATION_ID": "spark-1",
        "SPARK_EXECUTOR_ID": "7",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
        "SPARK_EXECUTOR_POD_NAME": "sluice-exec-7",
        "SPARK_LOCAL_DIRS": f"{tmp_path},/nowhere",
        **{f"SPARK_JAVA_OPT_{n}": f"-Dn={n} and more" for n in (10, 9)},
    }
    java, *command, directory = run_entry(tmp_path, "executor", **given)
    assert java == "java"
    assert command[:4] == ["-Dn=9 and more", "-Dn=10 and more", "-Xms1024m", "-Xmx1024m"]
    assert command[4:6] == ["-cp", "/app/.venv/lib/python3.11/site-packages/pyspark/jars/*"]
    message = dict(zip(command[7::2], command[8::2], strict=True))
    assert message == {
        "--driver-url": given["SPARK_DRIVER_URL"],
        "--executor-id": "7",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.7",
        "--resourceProfileId": "0",
        "--podName": "sluice-exec-7",
    }
    assert Path(directory.removeprefix("in ")).parent == tmp_path  # which it may write to
