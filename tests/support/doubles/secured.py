"""A Kafka with TLS, SCRAM users and ACLs for tests, on 127.0.0.1."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from rig.broker import EmbeddedBroker
from streaming.checks.permissions import USERS
from tests.support.patience import PATIENCE_S

HOME = Path(__file__).resolve().parents[3]
DOCUMENT, PERMISSIONS = HOME / "SECURITY.md", HOME / "docs" / "permissions.md"
ADMIN, ADMIN_PASSWORD = "admin", "hunter2-of-the-admin"
_STORE_PASSWORD = "hunter2-of-the-key-store"
_KINDS = ("topic", "group", "transactional-id")

# The broker's only public listener is called PLAINTEXT and is nothing of the kind. The broker talks to its controller,
# and to itself, as those that may do all: by its certificate, and as the admin.
_PROPERTIES = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SSL",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{ADMIN}" password="{ADMIN_PASSWORD}";'
    ),
    "listener.name.controller.ssl.client.auth": "required",
    "ssl.keystore.type": "PKCS12",
    "ssl.keystore.password": _STORE_PASSWORD,
    "ssl.key.password": _STORE_PASSWORD,
    "ssl.truststore.type": "PEM",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "false",
    "super.users": f"User:{ADMIN};User:CN=broker",
}


@dataclass(frozen=True)
class Right:
    """`who` may do `operation` with the resources of a kind that have this name, or begin with it if it ends in *."""

    who: str
    kind: str
    name: str
    operation: str

    def binding(self) -> AclBinding:
        pattern = ResourcePatternType.PREFIXED if self.name.endswith("*") else ResourcePatternType.LITERAL
        return AclBinding(
            ResourceType[self.kind.replace("-", "_").upper()],
            self.name.removesuffix("*"),
            pattern,
            f"User:{self.who}",
            "*",
            AclOperation[self.operation.upper()],
            AclPermissionType.ALLOW,
        )


class Secured:
    def __init__(self, broker: EmbeddedBroker, directory: Path) -> None:
        self.bootstrap_servers = broker.bootstrap_servers.replace("127.0.0.1", "localhost")
        self.authority = directory / "ca.pem"
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **self.client(ADMIN, ADMIN_PASSWORD)})

    def client(self, user: str, password: str, authority: Path | None = None) -> dict[str, str]:
        """Options of librdkafka."""
        return _client(user, password, authority or self.authority)

    def settings(self, user: str, password: str, authority: Path | None = None) -> str:
        """TOML for both clients, as SECURITY.md has it."""
        example = block(DOCUMENT, "toml")
        for there, here in (
            ("kafka.example:9093", self.bootstrap_servers),
            ("/etc/sluice/ca.pem", str(authority or self.authority)),
            ("the-user", user),
            ("the-password", password),
        ):
            assert there in example
            example = example.replace(there, here)
        return example

    def add_user(self, name: str, password: str) -> None:
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(name, scram, password.encode())
        for future in self._admin.alter_user_scram_credentials([change]).values():
            future.result(PATIENCE_S)

    def allow(self, rights: Iterable[Right]) -> None:
        rights = list(rights)
        for future in self._admin.create_acls([right.binding() for right in rights]).values():
            future.result(PATIENCE_S)
        for right in rights:
            self._until(right, there=True)

    def revoke(self, right: Right) -> None:
        for future in self._admin.delete_acls([_only(right)]).values():
            future.result(PATIENCE_S)
        self._until(right, there=False)

    def _until(self, right: Right, there: bool) -> None:
        """Wait until the broker has learned of it from its controller."""
        while bool(self._admin.describe_acls(_only(right)).result(PATIENCE_S)) is not there:
            time.sleep(0.02)


def _only(right: Right) -> AclBindingFilter:
    own = right.binding()
    fields = ("restype", "name", "resource_pattern_type", "principal", "host", "operation", "permission_type")
    return AclBindingFilter(*(getattr(own, field) for field in fields))


@contextmanager
def secured_kafka(jars: Path, directory: Path) -> Iterator[Secured]:
    """`directory` takes the certificates, and must be empty."""
    store = certificates(directory, "ca")
    files = {"ssl.keystore.location": str(store), "ssl.truststore.location": str(directory / "ca.pem")}
    scram = f"SCRAM-SHA-512=[name={ADMIN},password={ADMIN_PASSWORD}]"
    with EmbeddedBroker(
        jars,
        properties={**_PROPERTIES, **files},
        format=("--add-scram", scram),
        client=_client(ADMIN, ADMIN_PASSWORD, directory / "ca.pem"),
    ) as broker:
        yield Secured(broker, directory)


def block(document: Path, language: str) -> str:
    """Return the only block of a language in a document."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(), re.DOTALL | re.MULTILINE)
    return str(found)


def rights() -> list[Right]:
    """Return the permissions of the table."""
    return [
        Right(user.name, permission.kind, permission.name, operation)
        for user in USERS
        for permission in user.permissions
        for operation in permission.operations
    ]


def commands() -> list[Right]:
    """Return the permissions that the commands of docs/permissions.md grant when given to Kafka's own tool."""
    tool = argparse.ArgumentParser()
    tool.add_argument("--add", action="store_true", required=True)
    tool.add_argument("--allow-principal", required=True)
    tool.add_argument("--operation", action="append", required=True)
    tool.add_argument("--resource-pattern-type", choices=["prefixed"])
    for kind in _KINDS:
        tool.add_argument(f"--{kind}", dest=kind)
    found = []
    for line in block(PERMISSIONS, "sh").splitlines():
        given = vars(tool.parse_args(shlex.split(line)[1:]))
        ((kind, name),) = ((kind, given[kind]) for kind in _KINDS if given[kind])
        name += "*" if given["resource_pattern_type"] else ""
        who = given["allow_principal"].removeprefix("User:")
        found += [Right(who, kind, name, operation.lower()) for operation in given["operation"]]
    return found


def certificates(directory: Path, authority: str) -> Path:
    """A new authority, whose certificate is `authority`.pem there, and a store with a broker's key that it signed."""
    store = directory / f"{authority}.p12"
    common = ("-keystore", str(store), "-storetype", "PKCS12", "-storepass", _STORE_PASSWORD)
    key = ("-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2")
    _keytool("-genkeypair", *common, *key, "-alias", "ca", "-dname", f"CN={authority}", "-ext", "bc:critical=ca:true")
    names = ("-ext", "san=dns:localhost,ip:127.0.0.1")
    _keytool("-genkeypair", *common, *key, "-alias", "broker", "-dname", "CN=broker", "-signer", "ca", *names)
    _keytool("-exportcert", *common, "-alias", "ca", "-rfc", "-file", str(directory / f"{authority}.pem"))
    _keytool("-delete", *common, "-alias", "ca")  # the broker shows its own, which has the authority's beside it
    return store


def _keytool(*arguments: str) -> None:
    done = subprocess.run(["keytool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _client(user: str, password: str, authority: Path) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": str(authority),
    }
