"""Settings as TOML: the text of a settings file."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import SecretStr

from streamer.settings.presets import METHOD_DETAILS
from streamer.settings.settings import Settings, changed


def as_toml(settings: Settings, *, methods: bool = True) -> str:
    """The settings as a TOML file that yields them again; secrets and unset ones are comments.

    methods  False leaves out METHOD_DETAILS at their defaults
    """
    left_out = frozenset() if methods else METHOD_DETAILS - frozenset(changed(settings))
    text = sections_as_toml(
        {
            section: [(key, value) for key, value in rows if f"{section}.{key}" not in left_out]
            for section, rows in settings
        }
    )
    if left_out:
        text += f"\n# {len(left_out)} settings of methods have their defaults: streamer config show --all\n"
    return text


def sections_as_toml(sections: Mapping[str, Iterable[tuple[str, Any]]]) -> str:
    """A TOML file with these keys and values by section.

    >>> sections_as_toml({"index": [("distance_max", 4), ("entries_max", None)]})
    '[index]\\ndistance_max = 4\\n# entries_max is unset\\n'
    """
    tables = [
        "\n".join([f"[{section}]", *(_assignment(key, value) for key, value in rows)])
        for section, rows in sections.items()
    ]
    return "\n\n".join(tables) + "\n"


def toml_value(value: Any) -> str:
    """A number, text, path or list as TOML."""
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    # A JSON text is a TOML text except for the delete character, which TOML wants escaped.
    return orjson.dumps(str(value) if isinstance(value, Path) else value).decode().replace("\x7f", "\\u007f")


def _assignment(key: str, value: Any) -> str:
    if value is None:
        return f"# {key} is unset"
    if isinstance(value, SecretStr):
        return f"# {key} is set and not shown"
    return f"{key} = {toml_value(value)}"
