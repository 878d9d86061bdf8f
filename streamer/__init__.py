"""The streaming near-duplicate filter: read, decode, fingerprint, decide, route, commit.

    from streamer import Filter

    with Filter("index-data") as seen:
        answer = seen.check({"id": "1", "text": "..."})

docs/api.md describes the rest. Names are loaded when they are first asked for, so that importing `streamer` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from index.errors import (
        AlreadyOpenError,
        FormatUnknownError,
        IndexClosedError,
        IndexDamagedError,
        IndexFullError,
        IndexInUseError,
        IndexMissingError,
        NeardupError,
        NeardupIndexError,
        ParametersDifferError,
    )
    from streamer.ask.answer import Answer
    from streamer.ask.filter import Filter
    from streamer.errors import SettingsError
    from streamer.settings.settings import Settings
    from streamer.settings.settings import load as load_settings

__all__ = [
    "AlreadyOpenError",
    "Answer",
    "Filter",
    "FormatUnknownError",
    "IndexClosedError",
    "IndexDamagedError",
    "IndexFullError",
    "IndexInUseError",
    "IndexMissingError",
    "NeardupError",
    "NeardupIndexError",
    "ParametersDifferError",
    "Settings",
    "SettingsError",
    "load_settings",
]

_HOMES = {
    "Answer": "streamer.ask.answer",
    "Filter": "streamer.ask.filter",
    "Settings": "streamer.settings.settings",
    "SettingsError": "streamer.errors",
    "load_settings": "streamer.settings.settings",
}
"""Modules by name; the other names are of index.errors."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    attribute = "load" if name == "load_settings" else name
    found: object = getattr(import_module(_HOMES.get(name, "index.errors")), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
