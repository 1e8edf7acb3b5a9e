"""Flags that several commands share, and the settings built from them."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from config import ConfigError, Settings, load

SUBMITTED = "PYSPARK_GATEWAY_PORT"  # the variable by which spark-submit tells us where its JVM is

ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        help="TOML file with settings; config/example.toml shows them all. Under spark-submit also a URL (hdfs://, s3a://).",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", help="A setting; overrides file and environment: -s events.topic=orders"),
]
Bootstrap = Annotated[
    str | None, typer.Option("--bootstrap-servers", "-b", help="Brokers: host:port,...", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Ids = Annotated[list[str] | None, typer.Argument(help="Ids; read from standard input, one per line, if left out.")]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the job has answered each change, and print the answers.")
]
Timeout = Annotated[float, typer.Option(help="Most seconds to --wait after the last write.", min=0)]
Answers = Annotated[
    bool,
    typer.Option("--json", help="JSON on standard output: the number of records written, or with --wait the answers."),
]


class Answering(NamedTuple):
    """Flags that set how to report the changes that were written."""

    wait: bool
    timeout_s: float
    as_json: bool


def answering(wait: Wait = False, timeout: Timeout = 60, as_json: Answers = False) -> Answering:
    return Answering(wait, timeout, as_json)


Command = Callable[..., None]


def with_flags(**makers: Callable[..., Any]) -> Callable[[Command], Command]:
    """Replace a command's parameters of these names by the flags of the functions that make their values."""

    def with_these(command: Command) -> Command:
        flags = {name: inspect.signature(maker, eval_str=True).parameters for name, maker in makers.items()}
        accepted = inspect.signature(command, eval_str=True).parameters
        taken = {n: p for name, parameter in accepted.items() for n, p in flags.get(name, {name: parameter}).items()}

        @functools.wraps(command)
        def called(**values: Any) -> None:
            made = {name: maker(**{flag: values.pop(flag) for flag in flags[name]}) for name, maker in makers.items()}
            command(**values, **made)

        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in taken.values()]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {name: p.annotation for name, p in taken.items()}
        return called

    return with_these


def settings(config: ConfigFile = None, bootstrap: Bootstrap = None, set_: Set = None) -> Settings:
    flags: dict[str, Any] = {"kafka.bootstrap_servers": bootstrap}
    for assignment in set_ or ():
        name, equals, value = assignment.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set takes section.key=value, not {assignment!r}")
        flags[name.strip()] = value
    return load(config, flags, _of_url if config and "://" in config else None)


def _of_url(location: str) -> str:
    if SUBMITTED not in os.environ:
        raise ConfigError(f"{location}: is a URL, which only `run` under spark-submit can read; give a local file")
    from streaming.driver import session  # only here: Spark's import takes a second

    return session.read_text(location)


Tenant = Annotated[
    str | None,
    typer.Option(help="The tenant whose subscriptions to read and write (subscriptions.tenants).", show_default=False),
]


def settings_of_tenant(
    config: ConfigFile = None, bootstrap: Bootstrap = None, set_: Set = None, tenant: Tenant = None
) -> Settings:
    found = settings(config, bootstrap, set_)
    if tenant is None:
        return found
    known = found.subscriptions.tenants
    if tenant not in known:
        raise typer.BadParameter(
            f"--tenant: {tenant!r} is none of subscriptions.tenants, which are {', '.join(known) or 'empty'}"
        )
    return found.of_tenant(tenant)


with_settings = with_flags(settings=settings)
with_settings_of_tenant = with_flags(settings=settings_of_tenant)
