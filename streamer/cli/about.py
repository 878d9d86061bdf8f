"""`streamer version` and `streamer completion`: what a bug report needs, and what a shell needs."""

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, metadata, version
from importlib.metadata import requires as requirements
from pathlib import Path

import click
import orjson
from click.shell_completion import get_completion_class
from rich.console import Console
from rich.table import Table

from streamer.cli.options import json_option, settings_options

DISTRIBUTION = "neardup-streamer"
PROGRAM = "streamer"
SHELLS = ("bash", "zsh", "fish")

_DEVELOPERS = re.compile(r"extra == ['\"](dev|docs|bench|local-kafka)['\"]")
"""Requirements that the program itself never imports."""

_NAME = re.compile(r"[\w.-]+")
"""The name with which a requirement begins."""


@click.command("version")
@json_option
@settings_options
def version_command(as_json: bool) -> None:
    """Tell what a bug report needs: versions, formats, and this machine.

    Nothing of it is secret: no setting, no name of a host, no path.
    """
    facts = about()
    if as_json:
        click.echo(orjson.dumps(facts, option=orjson.OPT_INDENT_2))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in facts.items():
        shown = [f"{each} {found}" for each, found in value.items()] if isinstance(value, dict) else [str(value)]
        for place, line in enumerate(shown):
            table.add_row(name.replace("_", " ") if place == 0 else "", line)
    Console().print(table, highlight=False)


@click.command()
@settings_options
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what makes the Tab key complete commands and options in SHELL.

    For bash: streamer completion bash >> ~/.bashrc. For zsh the same with .zshrc; for fish: streamer completion fish >
    ~/.config/fish/completions/streamer.fish.
    """
    # click's own command for it would look for a new enough bash first.
    whole = click.get_current_context().find_root().command
    chosen = get_completion_class(shell)
    assert chosen is not None, "click knows every shell of SHELLS"
    made = chosen(whole, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
    click.echo(made.source_template % made.source_vars())


def about() -> dict[str, str | int | dict[str, str]]:
    """Facts for a bug report, by name; `packages` holds the versions of all that the program is made of."""
    from index.tools import FORMAT_VERSION

    return {
        "version": version(DISTRIBUTION),
        "index_format": FORMAT_VERSION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "packages": _packages(),
    }


def _processor() -> str:
    """The processor as the kernel names it; what it is to the compiler of kernels, too."""
    from llvmlite.binding import get_host_cpu_name

    told = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace") if Path("/proc/cpuinfo").exists() else ""
    names = (line.split(":", 1)[1].strip() for line in told.splitlines() if line.startswith("model name"))
    return f"{next(names, platform.processor() or 'unknown')} ({get_host_cpu_name()})"


def _packages() -> dict[str, str]:
    """Versions of the packages that the program may import, as far as they are installed."""
    found = {}
    for line in requirements(DISTRIBUTION) or ():
        if _DEVELOPERS.search(line):
            continue
        name = _NAME.match(line)
        assert name is not None, line
        try:
            found[metadata(name[0])["Name"]] = version(name[0])
        except PackageNotFoundError:
            continue
    found.pop(DISTRIBUTION, None)
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))
