"""Define the flags that several commands share, and load the settings that they select."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from config import ConfigError, Settings, SourcedSettings, load, load_with_sources

SUBMITTED = "PYSPARK_GATEWAY_PORT"  # the variable in which spark-submit passes the port of its JVM

ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="TOML file with settings; config/example.toml shows them all. Under spark-submit also a URL (hdfs://, s3a://).",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="A setting, such as events.topic=orders; overrides file and environment. May be repeated.",
    ),
]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        metavar="HOST:PORT,...",
        help="Bootstrap servers; overrides kafka.bootstrap_servers.",
        show_default=False,
    ),
]
MOST_EVENTS_PER_SECOND, MOST_RECORDS = 1e9, 2**31 - 1  # that options take
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Ids = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID", help="Ids of subscriptions. Default: lines of standard input.", show_default=False),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the job has answered each change, and print the answers.")
]
Timeout = Annotated[float, typer.Option(help="With --wait: give up after this many seconds.", min=0)]
Answers = Annotated[
    bool,
    typer.Option(
        "--json", help="Print JSON on standard output: the number of records written, or with --wait the answers."
    ),
]


class Answering(NamedTuple):
    """The way to report the changes that were written."""

    wait: bool
    timeout_s: float
    as_json: bool


def answering(wait: Wait = False, timeout: Timeout = 60, as_json: Answers = False) -> Answering:
    return Answering(wait, timeout, as_json)


Command = Callable[..., None]


def with_flags(**makers: Callable[..., Any]) -> Callable[[Command], Command]:
    """Replace parameters of a command by the flags of the functions that make their values, by parameter name."""

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
    return load(*_selected(config, bootstrap, set_))


def sourced_settings(config: ConfigFile = None, bootstrap: Bootstrap = None, set_: Set = None) -> SourcedSettings:
    return load_with_sources(*_selected(config, bootstrap, set_))


def _selected(
    config: str | None, bootstrap: str | None, set_: list[str] | None
) -> tuple[str | None, dict[str, Any], Callable[[str], str] | None]:
    """The arguments of `load`."""
    flags: dict[str, Any] = {"kafka.bootstrap_servers": bootstrap}
    for assignment in set_ or ():
        name, equals, value = assignment.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set takes section.key=value, not {assignment!r}")
        flags[name.strip()] = value
    return config, flags, _of_url if config and "://" in config else None


def _of_url(location: str) -> str:
    if SUBMITTED not in os.environ:
        raise ConfigError(f"{location}: is a URL, which only `run` under spark-submit can read; name a local file")
    from streaming.driver import session  # only here: Spark's import takes a second

    return session.read_text(location)


Tenant = Annotated[
    str | None,
    typer.Option(help="Tenant whose subscriptions to read and write (subscriptions.tenants).", show_default=False),
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
            f"--tenant: unknown tenant {tenant!r}; subscriptions.tenants has {', '.join(known) or 'none'}"
        )
    return found.of_tenant(tenant)


with_settings = with_flags(settings=settings)
with_settings_of_tenant = with_flags(settings=settings_of_tenant)
