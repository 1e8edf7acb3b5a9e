"""Generate docs/permissions.md from the table of permissions."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.checks.permissions import EVERYTHING, USERS, Permission
from tests.support.pages.markdown import code, table

HEAD = """# Permissions in Kafka

The minimal permissions of each user, for topics with their default names and `allow.everyone.if.no.acl.found=false`.
A test grants exactly these and runs everything. A `*` at the end of a name marks a prefix. In Kafka, `write` and `read`
each include `describe`.

[SECURITY.md](../SECURITY.md) explains what a user can do with them, and what differs with tenants, the layout `shared`
and `deliveries.create_topics = false`. `doctor` runs as the user of the job and checks each permission of `job`.

`python -m tests.support.pages` generates this page from `streaming/checks/permissions.py`.
"""

COMMANDS = """
## Commands

The same permissions as commands of Kafka's own tool. Add `--bootstrap-server` and `--command-config` to each.

```sh
"""

HEADER = ("kind", "name", "operations", "purpose")


def page() -> str:
    sections = (
        f"\n## `{user.name}`\n\nThis user {user.work}.\n\n{table(HEADER, _rows(user.permissions))}" for user in USERS
    )
    commands = (f"{_command(user.name, permission)}\n" for user in USERS for permission in user.permissions)
    return f"{HEAD}{''.join(sections)}{COMMANDS}{''.join(commands)}```\n"


def _rows(permissions: tuple[Permission, ...]) -> Iterator[tuple[str, ...]]:
    for p in permissions:
        yield p.kind, code(p.name), ", ".join(p.operations), p.purpose


def _command(user: str, permission: Permission) -> str:
    operations = " ".join(f"--operation {operation.capitalize()}" for operation in permission.operations)
    prefixed = " --resource-pattern-type prefixed" if permission.name.endswith(EVERYTHING) else ""
    resource = f"--{permission.kind} {permission.name.removesuffix(EVERYTHING)}{prefixed}"
    return f"kafka-acls.sh --add --allow-principal User:{user} {operations} {resource}"
