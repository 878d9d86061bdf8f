"""Sources of settings, parsing of their values, and messages about wrong ones.

The module knows no setting by name, but for `removed`: the model is an argument, two levels deep (section, key). A key is
`section.key`.
"""

import re
import tomllib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import orjson
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from streamer.settings.removed import REMOVED, removed_value

PREFIX = "STREAMER_"
"""Prefix of the variables; STREAMER_CONFIG names the file."""

_SHOWN_MAX = 80

# Kubernetes puts such variables into every container if a service is named streamer; they are no settings.
_SERVICE_LINK = re.compile(
    r"STREAMER_([A-Z0-9_]+_)?(SERVICE_HOST=.*|SERVICE_PORT(_\w+)?=[0-9]+|PORT(_[0-9]+_\w+)?=(tcp|udp|sctp)://.*"
    r"|PORT_[0-9]+_\w+=.*)"
)


@dataclass(frozen=True, slots=True)
class Given:
    """A value and its origin: `file x.toml`, `variable STREAMER_X__Y`, `option --set x.y`.

    >>> nested({"topics.input": Given("pages", "option --set topics.input")})
    {'topics': {'input': 'pages'}}
    """

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A rule between two settings, and whether it holds: keys[0] `rule` keys[1].

    >>> RelationsBroken([Relation(False, ("batch.records_max", "index.entries_max"), "must not exceed")])
    RelationsBroken('batch.records_max must not exceed index.entries_max')
    """

    holds: bool
    keys: tuple[str, str]
    rule: str


class RelationsBroken(ValueError):
    """Each setting is right, but some contradict each other."""

    def __init__(self, broken: Sequence[Relation]) -> None:
        super().__init__("; ".join(f"{relation.keys[0]} {relation.rule} {relation.keys[1]}" for relation in broken))
        self.broken = broken


def fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Every setting of the model by its key."""
    return {
        f"{section}.{key}": field
        for section, holder in model.model_fields.items()
        for key, field in section_model(holder).model_fields.items()
    }


def section_model(field: FieldInfo) -> type[BaseModel]:
    """The model of a section."""
    assert isinstance(field.annotation, type)
    assert issubclass(field.annotation, BaseModel)
    return field.annotation


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + key.upper().replace(".", "__")


def leaf_types(annotation: Any) -> list[Any]:
    """The plain types and literal values in an annotation, without Annotated, unions and the items of lists."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return leaf_types(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [leaf for part in get_args(annotation) for leaf in leaf_types(part)]
    if origin is Literal:
        return list(get_args(annotation))
    return [list if origin is list else annotation]


@dataclass(frozen=True, slots=True)
class Preset:
    """A settings file below all other sources, except for the keys that it takes over from file and variables.

    >>> preset = Preset("news", Path("news.toml"), takes_over=frozenset({"decode.text"}))
    >>> "decode.text" in preset.takes_over
    True
    """

    name: str
    file: Path
    takes_over: frozenset[str]


def gather(
    model: type[BaseModel],
    file: Path | None,
    overrides: Sequence[str] | Mapping[str, Any],
    environment: Mapping[str, str],
    preset: Preset | None = None,
) -> tuple[dict[str, Given], list[str]]:
    """The strongest value of each key, and one line for each problem: anything else than a known key's value."""
    settings = fields(model)
    of_file = [] if file is None else _from_file(model, file, f"file {file}")
    entries = [*of_file, *_from_environment(settings, environment)]
    if preset is not None:
        kept = [entry for entry in entries if isinstance(entry, str) or entry[0] not in preset.takes_over]
        entries = [*_from_file(model, preset.file, f"preset {preset.name}"), *kept]
    entries += _from_overrides(settings, overrides)
    values = dict(entry for entry in entries if not isinstance(entry, str))
    return values, [entry for entry in entries if isinstance(entry, str)]


def nested(values: Mapping[str, Given]) -> dict[str, dict[str, Any]]:
    """Values by section and key, as the model takes them."""
    sections: dict[str, dict[str, Any]] = {}
    for key, given in values.items():
        section, name = key.split(".", 1)
        sections.setdefault(section, {})[name] = given.value
    return sections


def problem_lines(model: type[BaseModel], error: ValidationError, values: Mapping[str, Given]) -> list[str]:
    """One line for each wrong value or broken relation: key, accepted values, value, origin."""
    settings = fields(model)
    lines: dict[str, str] = {}
    for problem in error.errors():
        cause = problem.get("ctx", {}).get("error")
        if isinstance(cause, RelationsBroken):
            lines |= {str(relation): _relation_line(relation, settings, values) for relation in cause.broken}
            continue
        key = ".".join(str(part) for part in problem["loc"][:2])
        given, field = values[key], settings[key]
        if reason := removed_value(key, given.value):
            lines[key] = f'{key}: "{given.value}" {reason} ({given.origin})'
        lines.setdefault(key, f"{key}: must be {wanted(field)}, not {_shown(field, given.value)} ({given.origin})")
    return list(lines.values())


def wanted(field: FieldInfo) -> str:
    """What a setting accepts, in words: `a whole number from 0 to 7`."""
    leaves = leaf_types(field.annotation)
    title = field.title or _title(field.annotation)
    if list in leaves:
        words = f"a list of {title or 'texts'}"
    elif title is not None:
        words = title
    elif not isinstance(leaves[0], type):
        words = "one of " + ", ".join(_quoted(leaf) for leaf in leaves if leaf is not type(None))
    elif leaves[0] is int:
        words = "a whole number" + _bounds(field)
    elif leaves[0] is float:
        words = "a number" + _bounds(field)
    else:
        words = {bool: "true or false", Path: "a path"}.get(leaves[0], "a text that is not empty")
    return words + (" or unset" if type(None) in leaves else "")


def _title(annotation: Any) -> str | None:
    """The outermost title among the parts of an annotation, or None."""
    titles: list[str | None] = [
        part.title for part in getattr(annotation, "__metadata__", ()) if isinstance(part, FieldInfo)
    ]
    titles += [_title(part) for part in get_args(annotation)]
    return next((title for title in titles if title is not None), None)


def _bounds(field: FieldInfo) -> str:
    limits = {name: getattr(entry, name) for entry in field.metadata for name in ("ge", "le") if hasattr(entry, name)}
    if "le" in limits:
        return f" from {limits['ge']} to {limits['le']}"
    return f" of at least {limits['ge']}" if "ge" in limits else ""


def _quoted(value: Any) -> str:
    return orjson.dumps(value).decode() if isinstance(value, (str, int)) else str(value)


def _shown(field: FieldInfo, value: Any) -> str:
    """The given value, for people; never a secret."""
    if SecretStr in leaf_types(field.annotation):
        return "what was given (not shown)"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    if isinstance(value, bool):
        text = text.lower()
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."


def _relation_line(relation: Relation, settings: Mapping[str, FieldInfo], values: Mapping[str, Given]) -> str:
    def value_of(key: str) -> str:
        given = values.get(key) or Given(settings[key].get_default(), "the default")
        if given.value is None and key not in values:
            return f"{key} (unset)"
        return f"{key} ({_shown(settings[key], given.value)}, {given.origin})"

    return f"{value_of(relation.keys[0])} {relation.rule} {value_of(relation.keys[1])}"


_Entries = Iterator[tuple[str, Given] | str]
"""Values by key, and lines about problems."""


def _from_file(model: type[BaseModel], file: Path, origin: str) -> _Entries:
    try:
        # Editors on Windows begin a file with a byte order mark.
        document = tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        yield f"{file}: cannot be read: {error.strerror}"
        return
    except UnicodeDecodeError as error:
        yield f"{file}: line {error.object[: error.start].count(10) + 1}: is not UTF-8"
        return
    except tomllib.TOMLDecodeError as error:
        yield f"{file}: is not valid TOML: {error}"
        return
    settings = fields(model)
    for section, holder in document.items():
        if section not in model.model_fields:
            yield _unknown(section, origin, list(model.model_fields))
        elif not isinstance(holder, dict):
            yield f"{section}: must be a table ([{section}]), not {holder!r} ({origin})"
        else:
            for name, value in holder.items():
                key = f"{section}.{name}"
                yield (key, Given(value, origin)) if key in settings else _unknown(key, origin, settings)


def _from_environment(settings: Mapping[str, FieldInfo], environment: Mapping[str, str]) -> _Entries:
    keys = {variable(key): key for key in settings}
    removed = {variable(key): key for key in REMOVED}
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name == PREFIX + "CONFIG":
            continue
        if name in keys:
            yield keys[name], Given(parse(settings[keys[name]], environment[name]), f"variable {name}")
        elif name in removed:
            yield f"{name}: {REMOVED[removed[name]]} (variable)"
        elif not _SERVICE_LINK.fullmatch(f"{name}={environment[name]}"):
            yield _unknown(name, "variable", [*keys, PREFIX + "CONFIG"])


def _from_overrides(settings: Mapping[str, FieldInfo], overrides: Sequence[str] | Mapping[str, Any]) -> _Entries:
    if isinstance(overrides, Mapping):
        for key, value in overrides.items():
            if key in settings:
                yield key, Given(parse(settings[key], value) if isinstance(value, str) else value, "given in Python")
            else:
                yield _unknown(key, "given in Python", settings)
        return
    for override in overrides:
        key, equals, text = override.partition("=")
        key = key.strip()
        if key not in settings:
            yield _unknown(key, "option --set", settings)
        elif not equals:
            yield f"{key}: has no value: write --set {key}=VALUE (option --set)"
        else:
            yield key, Given(parse(settings[key], text), f"option --set {key}")


def parse(field: FieldInfo, text: str) -> Any:
    """A text's value by the setting's type; the text itself if it has none."""
    leaves = leaf_types(field.annotation)
    if not text and type(None) in leaves:
        return None
    if list in leaves:
        return _parse_list(text)
    if bool in leaves:
        return {"true": True, "false": False}.get(text.strip().lower(), text)
    if any(leaf is int or type(leaf) is int for leaf in leaves) and re.fullmatch(r"\s*[+-]?[0-9]{1,30}\s*", text):
        return int(text)
    if float in leaves and re.fullmatch(r"\s*[+-]?[0-9]{1,30}(\.[0-9]{1,30})?\s*", text):
        return float(text)
    return text


def _parse_list(text: str) -> Any:
    if text.lstrip().startswith("["):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text
    return [item.strip() for item in text.split(",") if item.strip()]


def _unknown(name: str, origin: str, settings: Iterable[str]) -> str:
    if name in REMOVED:
        return f"{name}: {REMOVED[name]} ({origin})"
    names = list(settings)
    same_key = [key for key in names if "." in name and key.split(".")[-1] == name.split(".")[-1]]
    near = same_key or get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(names)}" if len(names) < 20 else ""
    return f"{name}: there is no such setting{hint} ({origin})"
