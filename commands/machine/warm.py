"""Run the command `warm`: compile kernels, and archive Java's classes, before a job needs them."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from typing import Annotated

import typer

from commands import JARS
from commands.shared.flags import with_settings
from commands.shared.terminal import note, out
from config import Settings
from offline.files import InputError

app = typer.Typer()


@app.command()
@with_settings
def warm(
    algorithms: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ALGORITHM", help="Names of algorithms. Default: matching.algorithm.", show_default=False
        ),
    ] = None,
    *,
    settings: Settings,
) -> None:
    from matchers.errors import MatchingError
    from matchers.registry import named  # not for a help text: it loads numba
    from streaming.precompile import kernels, marker

    names = algorithms or [settings.matching.algorithm]
    for name in names:
        try:
            named(name)
        except MatchingError as error:
            raise InputError(str(error)) from None
    with marker.alone() if kernels.needed(names, replays=True) else nullcontext():
        compile_kernels(names, settings)
    archive_classes(settings)


def compile_kernels(names: list[str], settings: Settings) -> None:
    """Compile the kernels of a job with each of these algorithms, unless that was done."""
    from streaming.precompile import kernels
    from streaming.precompile.kernels import CompiledKernels
    from streaming.state.pool import processes

    stages = kernels.needed(names, replays=True)
    left = [name for stage in stages for name in stage]
    if not left:
        note(f"all kernels are compiled for {', '.join(names)}")
        return
    began = time.monotonic()

    def say(compiled: CompiledKernels) -> None:
        left.remove(compiled.name)
        rest = f"; left: {', '.join(left)}" if left else ""
        out.print(f"{compiled.name}: {compiled.kernels} kernels in {compiled.cpu_s:.1f} s of a core{rest}")

    chosen = settings.matching
    note(f"compiling kernels, once: {', '.join(left)}")
    with processes(os.cpu_count() or 1) as pool:
        kernels.compile(stages, {chosen.algorithm: chosen.options}, pool, say)
    note(f"done after {time.monotonic() - began:.1f} s")


def archive_classes(settings: Settings) -> None:
    """Archive the classes of a job's JVM, unless that was done."""
    from streaming.driver.starting import archiving  # imports Spark

    jars = JARS / "spark"
    if archiving.is_due(settings, jars):
        note("archiving the classes of Spark's JVM, once; this takes half a minute")
        archiving.write(settings, jars)
        note("done")
