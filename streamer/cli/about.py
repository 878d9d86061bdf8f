"""`streamer version` for bug reports, and `streamer completion` for shells."""

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, metadata, version
from importlib.metadata import requires as requirements
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from streamer.cli.options import json_option, settings_options
from streamer.cli.outputs import show
from streamer.explain.plain_table import PlainTable

DISTRIBUTION = "neardup-streamer"
PROGRAM = "streamer"
SHELLS = ("bash", "zsh", "fish")

_DEVELOPERS = re.compile(r"extra == ['\"](dev|docs|bench|local-kafka)['\"]")
"""Requirements that the program never imports."""

_NAME = re.compile(r"[\w.-]+")
"""Package name at the start of a requirement."""


@click.command("version")
@json_option
@settings_options
def version_command() -> None:
    """Print versions, formats and machine facts for a bug report.

    The output has no settings, host names or paths.
    """
    facts = about()
    table = PlainTable("name", "value", ids=("name",), headed=False)
    for name, value in facts.items():
        lines = [" ".join(pair) for pair in value.items()] if isinstance(value, dict) else [str(value)]
        for row, line in enumerate(lines):
            table.add_row(name.replace("_", " ") if row == 0 else "", line)
    show(facts, table, soft_wrap=False)


@click.command()
@settings_options
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script for tab completion in SHELL.

    For bash: streamer completion bash >> ~/.bashrc. For zsh the same with .zshrc; for fish: streamer completion fish >
    ~/.config/fish/completions/streamer.fish.
    """
    # click's `source()` would first check the version of bash.
    root = click.get_current_context().find_root().command
    completion_class = get_completion_class(shell)
    assert completion_class is not None, "click supports every shell of SHELLS"
    script = completion_class(root, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE")
    click.echo(script.source_template % script.source_vars())


def about() -> dict[str, str | int | dict[str, str]]:
    """Facts for a bug report, by name; `packages` has all requirements' versions."""
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
    from llvmlite.binding import get_host_cpu_name

    file = Path("/proc/cpuinfo")
    cpuinfo = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    names = (line.split(":", 1)[1].strip() for line in cpuinfo.splitlines() if line.startswith("model name"))
    return f"{next(names, platform.processor() or 'unknown')} ({get_host_cpu_name()})"


def _packages() -> dict[str, str]:
    versions = {}
    for line in requirements(DISTRIBUTION) or ():
        if _DEVELOPERS.search(line):
            continue
        name = _NAME.match(line)
        assert name is not None, line
        try:
            versions[metadata(name[0])["Name"]] = version(name[0])
        except PackageNotFoundError:
            continue
    versions.pop(DISTRIBUTION, None)
    return dict(sorted(versions.items(), key=lambda item: item[0].lower()))
