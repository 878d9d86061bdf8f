"""Settings for people: a TOML file of the current ones, and the reference pages."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from streamer.settings.method_presets import METHOD_DETAILS
from streamer.settings.presets import PRESETS
from streamer.settings.second_look import DISTANCES, LOOK_OF_SIMHASH, ROOT_SIMILARITY_MIN
from streamer.settings.settings import Settings, changed
from streamer.settings.values import fields, section_model, variable, wanted

_HEAD = """\
# Settings

Made by `streamer.settings.reference.reference()` from streamer/settings/settings.py; edit there.

Values come from these places; a later one wins over an earlier one:

1. the defaults below,
2. one TOML file: `--config FILE`, or the file that the variable `STREAMER_CONFIG` names,
3. variables `STREAMER_<SECTION>__<KEY>`,
4. `--preset NAME`: a whole method ([presets](methods.md#one-line-each)). It replaces `minhash`, `second_look`,
   `index.distance_max` and `fingerprint` except for `markup`, `simplify`, `segmenter` and `dictionary`,
5. `--set section.key=value`, as often as needed.

In a variable or after `--set` a list is a JSON array or is separated by commas, and an empty text unsets a setting that may be
unset. Relative paths are relative to the service's working folder. A wrong value, an unknown key or `STREAMER_` variable, and
settings that contradict each other end the start: exit code 78, one line per problem. `streamer config check` also fails if a
needed extra is missing or a setting has no effect.

`streamer config show` prints the current settings. What makes one method another, as its paper has it, is the content of
presets: [settings of methods](settings-methods.md). `config show` leaves these out at their defaults; `config show --all` prints
them too.
"""

_METHODS_HEAD = """\
# Settings of methods

Made by `streamer.settings.reference.method_reference()` from streamer/settings/; edit there.

These settings make one method another, as its paper has it. [Presets](methods.md#one-line-each) hold them, so most users never
set one. Files, variables and `--set` take them like [all settings](settings.md). `streamer config show` prints those that differ
from their defaults, and `streamer config show --all` prints every one.
"""

_METHODS_RELATIONS = """
## Relations

- `fingerprint.markers` is set only with a `fingerprint.marker_factor` over 1
- with `fingerprint.second_look = "metadata"` `index.distance_max` is left out: it follows, floor(`second_look.content_weight` /
  (`second_look.similarity_min` - (1 - `second_look.content_weight`)) - 1), and must not be over 7
"""

_RELATIONS = """
## Relations

- `kafka.request_timeout_ms` < `kafka.delivery_timeout_ms` < `workers.progress_timeout_ms` <
  `kafka.transaction_timeout_ms`
- `kafka.max_poll_interval_ms` > 3 x `workers.progress_timeout_ms`
- `kafka.session_timeout_ms` < `kafka.max_poll_interval_ms`
- `workers.document_timeout_ms` < `workers.progress_timeout_ms`
- `workers.restart_backoff_ms` <= `workers.restart_backoff_max_ms`
- `decode.value_bytes_max` <= `batch.bytes_max`
- `kafka.request_bytes_max` >= `decode.value_bytes_max` + 65536 (key and headers)
- the six topics differ from each other
- `kafka.sasl_mechanism`, `kafka.sasl_username` and `kafka.sasl_password` are set exactly if
  `kafka.security_protocol` is a SASL one, and the `kafka.ssl_` files only if it is an SSL one, certificate and key together
- together: `observe.tls_certificate_file` and `observe.tls_key_file`; `observe.user` and `observe.password_file`
- not together: `ask.token` and `ask.token_file`; one of them if `ask.enabled` is set and `observe.host` is no loopback address
- `fingerprint.second_look` is set only with `fingerprint.scheme = "simhash"`; `"metadata"` needs `decode.metadata`
- with `fingerprint.scheme = "simhash"` `fingerprint.second_look` is `"cosine"` unless set, and `index.distance_max` 7 with
  `"cosine"`, 4 with `"none"`
- with `index.insert = "root"` `index.root_similarity_min` <= `minhash.similarity_min`, and `index.distance_max` <=
  `index.root_distance_max` <= `fingerprint.bits`
- `guard.policy = "pass"` needs an `index.insert` other than `"unique"`: a suspect is an entry
- with `decode.format = "text"` there are no fields: no preset but `plain`, no pointer
- with `decode.format = "avro"` `decode.registry_url` is set, and the other `decode.registry_` settings only there;
  `decode.registry_user` and `decode.registry_password` together
- `fingerprint.key_file` needs `fingerprint.key = "secret"`

SimHash does not read the section `minhash`, `index.root_similarity_min` and `index.templates`. MinHash does not read
`index.distance_max`, `index.root_distance_max`, the section `second_look` and, in the section `fingerprint`, anything
but `markup`, `simplify`, `key` and `key_file`. If such a setting differs from its default, `streamer run` and
`streamer filter` warn, and `streamer config check` fails. With `--preset` it is an error for every command.

## Presets of crawlers

"""


def as_toml(settings: Settings, *, methods: bool = True) -> str:
    """The settings as a TOML file that yields them again; secrets and unset ones are comments.

    methods  False leaves out METHOD_DETAILS at their defaults
    """
    left_out = frozenset() if methods else METHOD_DETAILS - frozenset(changed(settings))
    lines: list[str] = []
    for section in type(settings).model_fields:
        lines += [*([""] if lines else []), f"[{section}]"]
        rows = getattr(settings, section)
        lines += [assignment(key, value) for key, value in rows if f"{section}.{key}" not in left_out]
    if left_out:
        lines += ["", f"# {len(left_out)} settings of methods have their defaults: streamer config show --all"]
    return "\n".join(lines) + "\n"


def assignment(key: str, value: Any) -> str:
    """One line of TOML for a setting; a comment if it is unset or secret."""
    if value is None:
        return f"# {key} is unset"
    if isinstance(value, SecretStr):
        return f"# {key} is set and not shown"
    return f"{key} = {_toml(value)}"


def reference() -> str:
    """The page docs/settings.md: an operator's settings with type, bounds, default, variable and meaning."""
    names = "".join(f" `{name}` |" for name in PRESETS)
    parts = [_HEAD, *_tables(fields(Settings).keys() - METHOD_DETAILS), _RELATIONS]
    parts.append(f"| Setting |{names}\n|---|{'---|' * len(PRESETS)}\n")
    for key in ("text", "title", "id", "time", "host"):
        cells = [_pointers(getattr(preset, key)) for preset in PRESETS.values()]
        parts.append(f"| `decode.{key}` | {' | '.join(cells)} |\n")
    return "".join(parts)


def method_reference() -> str:
    """The page docs/settings-methods.md: the same for METHOD_DETAILS."""
    return "".join([_METHODS_HEAD, *_tables(METHOD_DETAILS), _METHODS_RELATIONS])


def _tables(shown: Collection[str]) -> Iterator[str]:
    """A table for each section with one of these keys."""
    for section, holder in Settings.model_fields.items():
        model = section_model(holder)
        rows = [_row(section, key, field) for key, field in model.model_fields.items() if f"{section}.{key}" in shown]
        if rows:
            yield f"\n## {section}\n\n{model.__doc__}\n\n| Key | Value | Default | Variable | Meaning |\n|---|---|---|---|---|\n"
            yield from rows


def _pointers(pointers: str | tuple[str, ...] | None) -> str:
    if not pointers:
        return "-"
    return ", else ".join(f"`{pointer}`" for pointer in ((pointers,) if isinstance(pointers, str) else pointers))


_FOLLOWS = {
    "index.root_similarity_min": f"`{ROOT_SIMILARITY_MIN}`, or `minhash.similarity_min` where that is less",
    "index.insert": '`"root"`, with SimHash `"unique"`',
    "fingerprint.second_look": f'with SimHash `"{LOOK_OF_SIMHASH}"`',
    "index.distance_max": f'`{DISTANCES["cosine"]}` with `"cosine"`, `{DISTANCES["none"]}` with `"none"`',
}
"""Notes on defaults that follow from other settings."""


def _row(section: str, key: str, field: FieldInfo) -> str:
    default = field.get_default()
    name = f"{section}.{key}"
    shown = _FOLLOWS.get(name) or ("unset" if default is None else f"`{_toml(default)}`")
    cells = [f"`{name}`", wanted(field), shown, f"`{variable(name)}`", field.description or ""]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _toml(value: Any) -> str:
    assert not isinstance(value, BaseModel)
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    # A JSON text is a TOML text except for the delete character, which TOML wants escaped.
    return orjson.dumps(str(value) if isinstance(value, Path) else value).decode().replace("\x7f", "\\u007f")
