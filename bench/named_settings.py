"""Settings by name, as the benchmarks take and print them: the words of `streamer evaluate --try`."""

from dataclasses import dataclass, replace
from typing import Literal

import click

from index.storage.parameters import Parameters
from streamer.errors import SettingsError
from streamer.evaluation.scores import entering_all
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.presets import METHOD_PRESETS
from streamer.settings.settings import Settings, load

Policy = Literal["unique", "root", "all"]
"""Documents that enter: as `index.insert` says, or with "all" those of `streamer.evaluation.scores.entering_all`."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to run the filter, with its name. `bands`: None for those that the product derives."""

    name: str
    settings: Settings
    insert: Policy
    bands: int | None = None

    def entering(self, insert: Policy) -> "Setting":
        """The same with another policy."""
        settings = self.settings if insert == "all" else self.settings.replaced(index={"insert": insert})
        return replace(self, name=f"{self.name}, {insert}", settings=settings, insert=insert)

    @property
    def parameters(self) -> Parameters:
        """Parameters of an index for this setting."""
        parameters = parameters_for(self.settings, {"bench": self.name})
        if self.insert == "all":
            parameters = entering_all(parameters)
        if self.bands is None or parameters.banding is None:
            return parameters
        return replace(parameters, banding=replace(parameters.banding, bands=self.bands))


def parse(name: str) -> Setting:
    """The setting that a name says: `default`, or a preset, or neither, and then any `section.key=value`.

    Whatever the name leaves out stays as shipped. Raises SettingsError.
    """
    first, *others = name.split() or [""]
    if first == "default" or "=" in first:
        settings = load(None, others if first == "default" else [first, *others], {})
    elif first in METHOD_PRESETS:
        settings = load(None, others, {}, preset=first)
    else:
        raise SettingsError(f"{name!r} names no setting. Begin with default or one of {', '.join(METHOD_PRESETS)}.")
    return Setting(name, settings, settings.index.insert)


class _Named(click.ParamType):
    name = "NAME [SECTION.KEY=VALUE ...]"

    def convert(self, value: object, parameter: click.Parameter | None, context: click.Context | None) -> Setting:
        try:
            return value if isinstance(value, Setting) else parse(str(value))
        except SettingsError as problem:
            self.fail(str(problem), parameter, context)


NAMED = _Named()
"""Type of an option that names a setting."""
