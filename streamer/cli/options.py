"""`--config`, `--preset` and `--set`, which every command takes, at every depth of the command line."""

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
    """A folder. An empty name, such as that of a shell's unset variable, would mean the current one."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        if value == "":
            self.fail("the name of the folder is empty", parameter, context)
        return super().convert(value, parameter, context)


FOLDER = _Folder(path_type=Path, file_okay=False)


@dataclass(slots=True)
class Chosen:
    """What the command line says about settings, in the order in which it says so.

    file       the settings file; None: none was named
    overrides  `section.key=value`; a later one wins
    preset     name of the method as a whole; None: none was named
    """

    file: Path | None = None
    overrides: list[str] = field(default_factory=list)
    preset: str | None = None

    def load(self, *more: str, over_files: bool = False) -> Settings:
        """The settings in force; `more` wins over everything else. `over_files`: see `load`. Raises SettingsError."""
        return load(self.file, [*self.overrides, *more], over_files=over_files, preset=self.preset)

    def with_preset(self, preset: str) -> "Chosen":
        """The same with another method: what was said of the method in force does not count."""
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
    """Add --config, --preset and --set to a command or a group. A group's choices reach the commands below it as `Chosen`."""
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
        # Told of twice, to say so: a single option would drop the first without a word.
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
        help="Take this method as a whole, in place of what the settings file says of methods.",
    )
    return with_config(with_preset(with_set(function)))


def pass_chosen(function: Callable[Concatenate[Chosen, Arguments], Result]) -> Callable[Arguments, Result]:
    """Add these options to a command, and pass what was chosen as its first argument."""
    return settings_options(click.make_pass_decorator(Chosen, ensure=True)(function))


def pass_settings(function: Callable[Concatenate[Settings, Arguments], Result]) -> Callable[Arguments, Result]:
    """Add these options to a command, and pass the settings in force as its first argument."""

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
    return click.option("--force", is_flag=True, help="Write over a file that exists.")(function)
