"""The manifests for Kubernetes follow its schemas, and give pods no more than they need."""

from __future__ import annotations

import re
import subprocess
from itertools import chain
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from config import load
from streaming import secret_files
from streaming.version import VERSION
from tests.unit.test_deploy import DOCKERFILE, KUBERNETES, OPTIONS, found

OLDEST = "1.30"  # of Kubernetes
# Kustomize's own, and a resource that comes with the Prometheus operator: their schemas are not Kubernetes'.
OTHERS = ("Kustomization", "PodMonitor")


def documents() -> list[dict[str, Any]]:
    texts = (file.read_text() for file in sorted(KUBERNETES.glob("*.yaml")))
    return list(chain.from_iterable(YAML(typ="safe", pure=True).load_all(text) for text in texts))


def pods() -> dict[str, dict[str, Any]]:
    """The templates of all pods, by what they are."""
    cron = found("backup.yaml", "CronJob")["spec"]["jobTemplate"]["spec"]["template"]
    return {
        "driver": found("driver.yaml", "StatefulSet")["spec"]["template"],
        "executor": found("executor.yaml", "Pod"),
        "backup": cron,
    }


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (one,) = pod["spec"]["containers"]
    return dict(one)


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_each_manifest_follows_the_schema_of_its_kind(version: str) -> None:
    checked = [document for document in documents() if document["kind"] not in OTHERS]
    assert len(checked) > 10
    for document in checked:
        kubernetes_validate.validate(document, version, strict=True)


def test_a_manifest_with_an_unknown_field_is_noticed() -> None:
    pod = found("executor.yaml", "Pod")
    pod["spec"]["runAsRoot"] = False
    with pytest.raises(kubernetes_validate.ValidationError, match="runAsRoot"):
        kubernetes_validate.validate(pod, OLDEST, strict=True)


def test_every_pod_has_the_labels_by_which_it_is_found() -> None:
    for name, pod in pods().items():
        assert pod["metadata"]["labels"] == {
            "app.kubernetes.io/name": "sluice",
            "app.kubernetes.io/component": name,
            "app.kubernetes.io/version": VERSION,
        }


@pytest.mark.parametrize("name", ["driver", "executor", "backup"])
def test_a_pod_writes_to_its_volumes_only(name: str) -> None:
    pod = pods()[name]
    assert container(pod)["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert "/tmp" in {mount["mountPath"] for mount in container(pod)["volumeMounts"]}
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]} | {"checkpoint"}
    assert {mount["name"] for mount in container(pod)["volumeMounts"]} <= volumes


@pytest.mark.parametrize("name", ["driver", "executor"])
def test_the_temporary_files_of_a_pod_are_limited(name: str) -> None:
    limits = container(pods()[name])["resources"]["limits"]
    (temporary,) = (volume for volume in pods()[name]["spec"]["volumes"] if volume["name"] == "temporary")
    sizes = [int(size.removesuffix("Gi")) for size in (temporary["emptyDir"]["sizeLimit"], limits["ephemeral-storage"])]
    assert sizes[0] < sizes[1]  # the limit of the pod counts its logs too


def test_each_pod_has_the_secret_as_files_and_none_in_its_environment(tmp_path: Path) -> None:
    readme = (KUBERNETES / "README.md").read_text()
    (keys,) = re.findall(r"create secret generic sluice (.*)", readme)
    directories = set()
    for name, pod in pods().items():
        (volume,) = (volume for volume in pod["spec"]["volumes"] if "secret" in volume)
        assert volume["secret"] == {"secretName": "sluice", "optional": True, "defaultMode": 0o440}, name
        (mount,) = (m for m in container(pod)["volumeMounts"] if m["name"] == volume["name"])
        assert mount["readOnly"]
        directories.add(mount["mountPath"])
        assert not [variable for variable in container(pod).get("env", ()) if "valueFrom" in variable]
    (directory,) = directories
    (settings,) = re.findall(r"```toml\n(.*?)```", readme, re.DOTALL)
    for option in keys.split():
        file = tmp_path / option.removeprefix("--from-file=")
        file.write_text(f"content of {file.name}\n")
    (tmp_path / "sluice.toml").write_text(settings.replace(directory, str(tmp_path)))
    kafka = load(tmp_path / "sluice.toml").kafka
    client, spark = secret_files.read("kafka.client", kafka.client), secret_files.read("kafka.spark", kafka.spark)
    assert client["sasl.password"] == "content of password"
    assert 'username="content of username" password="content of password";' in spark["sasl.jaas.config"]
    assert client["ssl.ca.location"] == spark["ssl.truststore.location"] == str(tmp_path / "ca.pem")
    assert directory not in (tmp_path / "sluice.toml").read_text()


def test_only_executors_reach_the_ports_of_spark() -> None:
    policies = {d["metadata"]["name"]: d["spec"] for d in documents() if d["kind"] == "NetworkPolicy"}
    assert policies.keys() == {"driver", "executor"}
    for name, policy in policies.items():
        labels = pods()[name]["metadata"]["labels"]
        assert policy["podSelector"]["matchLabels"].items() <= labels.items()
        assert policy["policyTypes"] == ["Ingress"]
    spark, monitoring = policies["driver"]["ingress"]
    (executors,) = spark["from"]
    assert executors["podSelector"]["matchLabels"].items() <= pods()["executor"]["metadata"]["labels"].items()
    ports = {port["name"] for port in container(pods()["driver"])["ports"]}
    assert {rule["port"] for rule in spark["ports"] + monitoring["ports"]} == ports
    ((blocks,),) = (rule["ports"] for rule in policies["executor"]["ingress"])
    assert str(blocks["port"]) == OPTIONS["spark.blockManager.port"]


def test_prometheus_finds_the_driver_under_the_name_of_the_alerts() -> None:
    monitor = found("podmonitor.yaml", "PodMonitor")["spec"]
    driver = pods()["driver"]
    assert monitor["selector"]["matchLabels"].items() <= driver["metadata"]["labels"].items()
    assert driver["metadata"]["labels"][monitor["jobLabel"]] == "sluice"
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint["port"] in {port["name"] for port in container(driver)["ports"]}


def test_the_backup_exports_and_keeps_the_last_thirty_days(tmp_path: Path) -> None:
    (script,) = container(pods()["backup"])["args"]
    old, young = tmp_path / "2026-01-01T03-00.jsonl", tmp_path / "2026-02-01T03-00.jsonl"
    for file in (old, young):
        file.touch()
    subprocess.run(["touch", "--date", "31 days ago", str(old)], check=True)
    entry = tmp_path / "entry"
    entry.write_text('#!/bin/sh\n[ "$1 $2" = "subscriptions export" ] && echo "$5" && touch "$5"\n')
    entry.chmod(0o755)
    here = script.replace("/app/docker/entry", str(entry)).replace("/backup", str(tmp_path))
    done = subprocess.run(["bash", "-c", here], capture_output=True, text=True, check=True)
    assert {file.name for file in tmp_path.glob("*.jsonl")} == {young.name, Path(done.stdout.strip()).name}
    entry.write_text("#!/bin/sh\nexit 75\n")
    killed = tmp_path / "2026-02-02T03-00.jsonl.part"
    for file in (old, killed):
        file.touch()
    subprocess.run(["touch", "--date", "31 days ago", str(old)], check=True)
    assert subprocess.run(["bash", "-c", here], check=False).returncode == 75
    assert not old.exists()  # it makes room on a full volume
    assert not killed.exists()
    for file in tmp_path.glob("*.jsonl"):
        file.unlink()
    old.touch()
    subprocess.run(["touch", "--date", "31 days ago", str(old)], check=True)
    assert subprocess.run(["bash", "-c", here], check=False).returncode == 75
    assert old.exists()  # there is none from the last two days


def test_the_image_says_which_version_and_commit_it_is() -> None:
    assert f'org.opencontainers.image.version="{VERSION}"' in DOCKERFILE
    assert 'org.opencontainers.image.revision="${REVISION}"' in DOCKERFILE
    assert "> streaming/revision" in DOCKERFILE
