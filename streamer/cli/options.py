"""Options of every command and group: `--config`, `--preset` and `--set`."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

import click

from streamer.cli.outputs import AS_JSON, json_text
from streamer.settings.presets import METHOD_KEYS, METHOD_PRESETS
from streamer.settings.settings import Settings, load
from streamer.transports.files.remote import is_url

if TYPE_CHECKING:
    from streamer.transports.files.remote import Input
    from streamer.transports.output_log import OutputLog, Way

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class _Folder(click.Path):
    """A folder with a name: a shell's unset variable would mean the current folder."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        if value == "":
            self.fail("the name of the folder is empty", parameter, context)
        if is_url(value):
            self.fail(f"{value} is a URL. Outputs and indexes stay on this machine: name a folder", parameter, context)
        return super().convert(value, parameter, context)


class _Files(click.Path):
    """A file, a folder, a glob or '-' as a path, and a URL as it is."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        return value if is_url(value) else super().convert(value, parameter, context)


FOLDER = _Folder(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
FILE_OR_STREAM = _Files(path_type=Path, allow_dash=True)


def _expanded(
    context: click.Context, _parameter: click.Parameter, files: tuple[Path | str, ...]
) -> "tuple[Input, ...]":
    from streamer.transports.files.expand import NoInput, input_files, remote_files
    from streamer.transports.files.needs import require_packages

    try:
        out = context.params.get("out")
        expanded: tuple[Input, ...] = tuple(
            file
            for given in files
            for file in (remote_files(given) if isinstance(given, str) else input_files(given, out))
        )
    except (NoInput, OSError) as error:
        raise click.BadParameter(str(error)) from error
    require_packages(expanded)
    return expanded


any_files_argument = click.argument("files", nargs=-1, type=FILE_OR_STREAM, callback=_expanded)
files_argument = click.argument("files", nargs=-1, required=True, type=FILE_OR_STREAM, callback=_expanded)
force_option = click.option("--force", is_flag=True, help="Overwrite an existing file.")
index_option = click.option(
    "--index", "directory", type=FOLDER, help="Folder of the index.  [default: index.directory of the settings]"
)
processes_option = click.option(
    "--processes",
    type=click.IntRange(1),
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="one a processor",
    metavar="N",
    help="Processes that decode and fingerprint.",
)
json_option = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=lambda context, _, as_json: context.meta.update({AS_JSON: as_json}),
    help="Print the result as JSON.",
)


def _moment_ms(_context: click.Context, _parameter: click.Parameter, since: str | None) -> int | None:
    from streamer.give_back.selection import moment_ms

    return None if since is None else moment_ms(since, round(time.time() * 1_000))


out_option = click.option(
    "--out", type=FOLDER, help="Read the outputs of `streamer filter` in this folder, not those in topics."
)
since_option = click.option(
    "--since",
    "since_ms",
    callback=_moment_ms,
    help="Only records from this time on: 2026-01-31T18:00, or an age: 90s, 15m, 2h, 3d.",
)


@dataclass(slots=True)
class Chosen:
    """Settings options of the command line, in their order.

    >>> Chosen(overrides=["batch.records_max=7"]).load(over_files=True).batch.records_max
    7
    """

    file: Path | None = None
    overrides: list[str] = field(default_factory=list)
    preset: str | None = None

    def load(self, *more: str, index: Path | None = None, over_files: bool = False) -> Settings:
        """Load the settings; `more` and the folder `index` override all else. Raises SettingsError.

        An unset `fingerprint.markup` is that of the index in place.
        """
        folder = [] if index is None else [f"index.directory={index}"]
        settings = self.stated(*folder, *more, over_files=over_files)
        if not settings.index.directory.is_dir():
            return settings
        from streamer.fingerprint.in_place import as_in_place

        return as_in_place(settings)

    def stated(self, *more: str, over_files: bool = False) -> Settings:
        """The same without a look at the index, for a process that loads nothing of it. Raises SettingsError."""
        return load(self.file, [*self.overrides, *more], over_files=over_files, preset=self.preset)

    def with_preset(self, preset: str) -> "Chosen":
        """The same options with another preset, and only overrides outside of methods."""
        others = [override for override in self.overrides if override.partition("=")[0].strip() not in METHOD_KEYS]
        return Chosen(self.file, others, preset)


def log_as_set(settings: Settings, level: Literal["info", "warning", "error"] | None = None) -> None:
    """Log in the form of the settings, from `level` on; without one from the level of the settings."""
    from streamer.observe.logs import configure_logging

    configure_logging(level or settings.observe.log_level, settings.observe.log_format)


def _choose(context: click.Context, _parameter: click.Parameter, overrides: tuple[str, ...]) -> None:
    context.ensure_object(Chosen).overrides += overrides


def _choose_one(context: click.Context, parameter: click.Parameter, values: tuple[Any, ...]) -> None:
    chosen, (field_name, what) = context.ensure_object(Chosen), _CHOSEN_ONCE[parameter.opts[0]]
    for value in values:
        before = getattr(chosen, field_name)
        if before not in (None, value):
            raise click.UsageError(f"{parameter.opts[0]} names two {what}, {before} and {value}: name one", context)
        setattr(chosen, field_name, value)


_CHOSEN_ONCE = {"--config": ("file", "files"), "--preset": ("preset", "methods")}


def _chosen_option(name: str, callback: Callable[..., None], **more: Any) -> Callable[[Decorated], Decorated]:
    # Multiple, so that a second file or preset is an error: a single option would ignore the first.
    return click.option(name, multiple=True, expose_value=False, callback=callback, **more)


def _choose_folders(context: click.Context, parameter: click.Parameter, folders: tuple[Path, ...]) -> None:
    if folders:
        chosen = json_text([*map(str, folders)])
        context.ensure_object(Chosen).overrides.append(f"index.{parameter.name}={chosen}")


base_option = _chosen_option(
    "--base",
    _choose_folders,
    type=FOLDER,
    help="An earlier index's folder: what resembles an entry there is a duplicate. Repeat it for more.  [--set index.base]",
)
protected_option = _chosen_option(
    "--protected",
    _choose_folders,
    type=FOLDER,
    help="A set that `streamer protect` made: what resembles it is reported, not dropped. Repeat it for more.  "
    "[--set index.protected]",
)


def settings_options(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Add --config, --preset and --set to a command or group. A group passes its options on as `Chosen`."""
    a_file, presets = click.Path(path_type=Path), click.Choice(list(METHOD_PRESETS))
    of_preset = "Use this method as a whole, in place of the settings file's method."
    for option in (
        _chosen_option("--set", _choose, metavar="SECTION.KEY=VALUE", help="Set one setting; repeat it for more."),
        _chosen_option("--preset", _choose_one, type=presets, help=of_preset),
        _chosen_option("--config", _choose_one, metavar="FILE", type=a_file, help="Read settings from this TOML file."),
    ):
        function = option(function)
    return function


def _choose_short(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(Chosen).overrides.append(f"{_SHORT[parameter.opts[0]][0]}={value}")


_SHORT = {
    "--similarity": ("minhash.similarity_min", "0 TO 1", "Documents at least so similar are duplicates (MinHash)."),
    "--id": ("decode.id", "POINTER", "Field of the id, such as /url."),
    "--title": ("decode.title", "POINTER", "Field of the title."),
    "--text": ("decode.text", "POINTER", "Field of the text, such as /body."),
    "--host": ("decode.host", "POINTER", "Field of the host, or of a URL that names it."),
    "--scope": ("decode.scope", "POINTER", "Field of the scope: documents of different scopes never match."),
    "--markup": ("fingerprint.markup", "KIND", "How mark-up is read."),
}
"""Options for settings that most people set: key, form, words."""


def short_options(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Add --similarity, --id, --title, --text, --host, --scope and --markup: each as --set of its setting."""
    for name, (key, form, words) in reversed(_SHORT.items()):
        told = f"{words}  [--set {key}]"
        function = click.option(name, metavar=form, expose_value=False, callback=_choose_short, help=told)(function)
    return function


def pass_chosen(function: Callable[Concatenate[Chosen, Arguments], Result]) -> Callable[Arguments, Result]:
    """Add these options to a command, and pass them first."""
    return settings_options(click.make_pass_decorator(Chosen, ensure=True)(function))


def pass_settings(function: Callable[Concatenate[Settings, Arguments], Result]) -> Callable[Arguments, Result]:
    """Add these options to a command, and pass the loaded settings first."""

    def command(chosen: Chosen, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        return function(chosen.load(), *arguments, **options)

    return pass_chosen(update_wrapper(command, function))


def chosen_and_json(function: Callable[Concatenate[Chosen, Arguments], Result]) -> Callable[Arguments, Result]:
    """As `pass_chosen`, for a command with a result, which it can print as JSON."""
    return json_option(pass_chosen(function))


def settings_and_json(function: Callable[Concatenate[Settings, Arguments], Result]) -> Callable[Arguments, Result]:
    """As `pass_settings`, for a command with a result, which it can print as JSON."""
    return json_option(pass_settings(function))


def outputs_and_json(function: Callable[..., Result]) -> Callable[..., Result]:
    """Add --json, --out, --index and these options, and pass the loaded settings and the folder of --out first."""

    def command(chosen: Chosen, /, out: Path | None, directory: Path | None, **options: Any) -> Result:
        return function(chosen.load(index=directory, over_files=out is not None), out, **options)

    with_chosen: Callable[..., Result] = pass_chosen(update_wrapper(command, function))
    return json_option(out_option(index_option(with_chosen)))


def output_log_of(settings: Settings, out: Path | None) -> "OutputLog":
    """The deliveries into the folder `out`, or into the settings' topics."""
    if out is not None:
        from streamer.transports.files.output_log import FileOutputLog

        return FileOutputLog(out, settings.batch)
    from streamer.transports.kafka.output_log import KafkaOutputLog

    return KafkaOutputLog(settings)


@contextmanager
def opened_output_log(settings: Settings, out: Path | None, way: "Way | None" = None) -> Iterator["OutputLog"]:
    """The same, open; `way` as in `OutputLog.open`."""
    with closing(output_log_of(settings, out)) as output_log:
        output_log.open(way)
        yield output_log
