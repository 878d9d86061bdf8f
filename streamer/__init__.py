"""The streaming near-duplicate filter: read, decode, fingerprint, decide, route, commit.

    from streamer import Filter, load_settings

    with Filter("index-data", load_settings()) as documents_seen:
        answers = documents_seen.check([{"id": "1", "text": "..."}])

docs/api.md describes the rest. Names are loaded when they are first asked for, so that importing `streamer` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamer.ask.answer import Answer
    from streamer.ask.filter import Filter
    from streamer.settings.settings import Settings
    from streamer.settings.settings import load as load_settings

__all__ = ["Answer", "Filter", "Settings", "load_settings"]

_HOMES = {
    "Answer": ("streamer.ask.answer", "Answer"),
    "Filter": ("streamer.ask.filter", "Filter"),
    "Settings": ("streamer.settings.settings", "Settings"),
    "load_settings": ("streamer.settings.settings", "load"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    found: object = getattr(import_module(module), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
