"""Tables of docs/settings.md and docs/settings-methods.md, made from the settings.

    python -m deploy.settings_pages

The rest of both pages is written by hand. A table stands between two comments, `<!-- settings -->` and `<!-- end -->`, or
`<!-- crawlers -->` and `<!-- end -->`.
"""

from collections.abc import Collection
from pathlib import Path

from pydantic.fields import FieldInfo

from streamer.settings.decode import PRESETS
from streamer.settings.presets import METHOD_DETAILS
from streamer.settings.second_look import DISTANCES, LOOK_OF_SIMHASH, ROOT_SIMILARITY_MIN
from streamer.settings.settings import Settings
from streamer.settings.toml import toml_value
from streamer.settings.values import fields, section_model, wanted

_DOCS = Path(__file__).resolve().parent.parent / "docs"

PAGES = {
    _DOCS / "settings.md": fields(Settings).keys() - METHOD_DETAILS,
    _DOCS / "settings-methods.md": METHOD_DETAILS,
}
"""Keys of the settings that each page lists."""

_COLUMNS = "| Key | Meaning | Value | Default |\n|---|---|---|---|\n"
_FOLLOWS = {
    "index.root_similarity_min": f"`{ROOT_SIMILARITY_MIN}`, or `minhash.similarity_min` where that is less",
    "index.insert": '`"root"`, with SimHash `"unique"`',
    "fingerprint.second_look": f'with SimHash `"{LOOK_OF_SIMHASH}"`',
    "index.distance_max": f'`{DISTANCES["cosine"]}` with `"cosine"`, `{DISTANCES["none"]}` with `"none"`',
}
"""Notes on defaults that follow from other settings."""


def with_tables(page: str, keys: Collection[str]) -> str:
    """The page with current tables for these settings."""
    for name, table in (("settings", _settings(keys)), ("crawlers", _crawlers())):
        before, begin, rest = page.partition(f"<!-- {name} -->\n")
        if begin:
            page = before + begin + table + rest[rest.index("<!-- end -->") :]
    return page


def _settings(keys: Collection[str]) -> str:
    """A table for each section with one of these keys: meaning, type, bounds and default."""
    text = ""
    for section, holder in Settings.model_fields.items():
        model = section_model(holder)
        rows = [
            _row(f"{section}.{key}", field) for key, field in model.model_fields.items() if f"{section}.{key}" in keys
        ]
        if rows:
            text += f"\n## {section}\n\n{model.__doc__}\n\n{_COLUMNS}{''.join(rows)}"
    return text + "\n"


def _row(key: str, field: FieldInfo) -> str:
    default = field.get_default()
    shown = _FOLLOWS.get(key) or ("unset" if default is None else f"`{toml_value(default)}`")
    cells = [f"`{key}`", field.description or "", wanted(field), shown]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _crawlers() -> str:
    """A row for each field, a column for each known crawler."""
    names = "".join(f" `{name}` |" for name in PRESETS)
    text = f"| Setting |{names}\n|---|{'---|' * len(PRESETS)}\n"
    for key in ("text", "title", "id", "time", "host"):
        cells = [_pointers(getattr(preset, key)) for preset in PRESETS.values()]
        text += f"| `decode.{key}` | {' | '.join(cells)} |\n"
    return text


def _pointers(pointers: str | tuple[str, ...] | None) -> str:
    listed = (pointers,) if isinstance(pointers, str) else pointers or ()
    return ", else ".join(f"`{pointer}`" for pointer in listed) or "-"


if __name__ == "__main__":
    for file, listed in PAGES.items():
        file.write_text(with_tables(file.read_text("utf-8"), listed), "utf-8")
