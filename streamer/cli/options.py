"""Options that every command and group takes: `--config`, `--preset` and `--set`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from streamer.settings.method_presets import METHOD_KEYS, METHOD_PRESETS
from streamer.settings.settings import Settings, load

if TYPE_CHECKING:
    from streamer.transports.output_log import OutputLog

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _Folder(click.Path):
    """A folder. Refuses an empty name, such as a shell's unset variable, which would mean the current folder."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        if value == "":
            self.fail("the name of the folder is empty", parameter, context)
        return super().convert(value, parameter, context)


FOLDER = _Folder(path_type=Path, file_okay=False)


@dataclass(slots=True)
class Chosen:
    """Settings options of the command line, in their order.

    >>> Chosen(overrides=["batch.records_max=7"]).load(over_files=True).batch.records_max
    7

    file       settings file, or None
    overrides  `section.key=value`; later ones override
    preset     name of a method preset, or None
    """

    file: Path | None = None
    overrides: list[str] = field(default_factory=list)
    preset: str | None = None

    def load(self, *more: str, over_files: bool = False) -> Settings:
        """Load the settings; `more` overrides everything else. `over_files`: see `load`. Raises SettingsError."""
        return load(self.file, [*self.overrides, *more], over_files=over_files, preset=self.preset)

    def with_preset(self, preset: str) -> "Chosen":
        """The same options with another preset, without overrides of method settings."""
        others = [override for override in self.overrides if override.partition("=")[0].strip() not in METHOD_KEYS]
        return Chosen(self.file, others, preset)


def _choose_file(context: click.Context, _parameter: click.Parameter, files: tuple[Path, ...]) -> None:
    chosen = context.ensure_object(Chosen)
    for file in files:
        if chosen.file not in (None, file):
            raise click.UsageError(f"--config names two files, {chosen.file} and {file}: name one", context)
        chosen.file = file


def _choose(context: click.Context, _parameter: click.Parameter, overrides: tuple[str, ...]) -> None:
    context.ensure_object(Chosen).overrides += overrides


def _choose_preset(context: click.Context, _parameter: click.Parameter, presets: tuple[str, ...]) -> None:
    chosen = context.ensure_object(Chosen)
    for preset in presets:
        if chosen.preset not in (None, preset):
            raise click.UsageError(f"--preset names two methods, {chosen.preset} and {preset}: name one", context)
        chosen.preset = preset


def settings_options(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Add --config, --preset and --set to a command or group. A group passes its options to its commands as `Chosen`."""
    with_set = click.option(
        "--set",
        multiple=True,
        metavar="SECTION.KEY=VALUE",
        expose_value=False,
        callback=_choose,
        help="Set one setting; repeat it for more.",
    )
    with_config = click.option(
        "--config",
        metavar="FILE",
        # Multiple, so that a second file is an error: a single option would silently ignore the first.
        multiple=True,
        type=click.Path(path_type=Path),
        expose_value=False,
        callback=_choose_file,
        help="Read settings from this TOML file.",
    )
    with_preset = click.option(
        "--preset",
        multiple=True,
        type=click.Choice(list(METHOD_PRESETS)),
        expose_value=False,
        callback=_choose_preset,
        help="Use this method as a whole, in place of the settings file's method.",
    )
    return with_config(with_preset(with_set(function)))


def pass_chosen(function: Callable[Concatenate[Chosen, Arguments], Result]) -> Callable[Arguments, Result]:
    """Add these options to a command, and pass them as its first argument."""
    return settings_options(click.make_pass_decorator(Chosen, ensure=True)(function))


def pass_settings(function: Callable[Concatenate[Settings, Arguments], Result]) -> Callable[Arguments, Result]:
    """Add these options to a command, and pass the loaded settings as its first argument."""

    def command(chosen: Chosen, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        return function(chosen.load(), *arguments, **options)

    return pass_chosen(update_wrapper(command, function))


def output_log_of(settings: Settings, out: Path | None) -> "OutputLog":
    """What was delivered: into the folder `out`, or into the topics of the settings."""
    if out is not None:
        from streamer.transports.files.output_log import FileOutputLog

        return FileOutputLog(out, settings.batch)
    from streamer.transports.kafka.output_log import KafkaOutputLog

    return KafkaOutputLog(settings)


def json_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json to a command."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(function)


def force_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --force to a command that writes a file."""
    return click.option("--force", is_flag=True, help="Overwrite an existing file.")(function)
