"""Sentences and settings for each verdict and reason, from wordings.toml, which has a table for each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from index import Parameters, errors, minhash, second_look
from streamer.explain.explanation import Likeness, Rule
from streamer.explain.words import wordings
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.decode import PRESETS
from streamer.settings.settings import Settings

ORIGINAL, OLDER_VERSION, LOOKALIKE = "original", "older version", "lookalike"
"""Role of the document that a verdict names: the one kept, the one replaced, or one with the same template."""


class Wording(NamedTuple):
    """A record's fate and its cause, the settings that took part, and the named document's role.

    >>> wording_of("dead-letter", "not-json").settings
    ['decode.format']
    """

    sentence: str
    settings: Sequence[str]
    role: str = ORIGINAL


def wording_of(verdict: str, reason: str) -> Wording:
    """Wording for a verdict's and a reason's label; their bare names without an entry."""
    table = wordings().get(verdict, {}).get(reason)
    if table is None:
        return Wording(f"{verdict.capitalize()}: {reason}.", ())
    return Wording(**{**table, "sentence": table["sentence"]["en"]})


def _matching(parameters: Parameters) -> list[str]:
    if parameters.scheme == "minhash":
        keys = ["minhash.similarity_min"]
    elif isinstance(parameters.look, second_look.MetadataLook):
        keys = ["second_look.similarity_min", "second_look.content_weight"]
    else:
        keys = ["index.distance_max"]
        if parameters.look is not None:
            keys.append("second_look.cosine_min")
    if parameters.root is not None:
        keys.append("index.root_similarity_min" if parameters.scheme == "minhash" else "index.root_distance_max")
    return [*keys, "index.insert"]


def _short(parameters: Parameters) -> Sequence[str]:
    return ("minhash.features_min" if parameters.scheme == "minhash" else "fingerprint.features_min",)


_GROUPS: Mapping[str, Callable[[Parameters], Sequence[str]]] = {"matching": _matching, "short": _short}


def deciding(parameters: Parameters, settings: Settings) -> Parameters:
    """Parameters for decisions: the index's, with the settings' thresholds if nothing else differs."""
    try:
        return parameters.deciding(
            parameters_for(settings, dict(parameters.fingerprint)), str(settings.index.directory)
        )
    except errors.ParametersDifferError:
        return parameters


def rules_of(
    wording: Wording, settings: Settings, parameters: Parameters, stored: Parameters | None = None
) -> tuple[Rule, ...]:
    """The settings that took part, by the parameters that decide now; `stored`: those in the index's stamp."""
    values, stamped = _stamped(parameters), _stamped(stored or parameters)
    rules = []
    for key in _keys_of(wording, parameters):
        section, _, name = key.partition(".")
        holder = getattr(settings, section)
        value = values.get(key, getattr(holder, name))
        if key in ("decode.id", "decode.text") and value is None:
            value = getattr(PRESETS[settings.decode.preset], name)
        meaning = type(holder).model_fields[name].description or ""
        place: Literal["index", "settings"] = "index" if key in stamped and stamped[key] == value else "settings"
        rules.append(Rule(key, f"{value:g}" if isinstance(value, float) else str(value), place, meaning))
    return tuple(rules)


def _keys_of(wording: Wording, parameters: Parameters) -> list[str]:
    named = [_GROUPS[each](parameters) if each in _GROUPS else [each] for each in wording.settings]
    return [key for keys in named for key in keys]


def _stamped(parameters: Parameters) -> dict[str, Any]:
    """The index's values of settings, by section.key."""
    look, root = parameters.look, parameters.root
    values: dict[str, Any] = {"index.insert": parameters.insert}
    if "features_min" in parameters.fingerprint:
        section = "minhash" if parameters.scheme == "minhash" else "fingerprint"
        values[f"{section}.features_min"] = parameters.fingerprint["features_min"]
    if parameters.scheme == "minhash":
        values["minhash.similarity_min"] = minhash.similarity_of(parameters.distance_max)
        if root is not None:
            values["index.root_similarity_min"] = minhash.similarity_of(root.distance_max)
        return values
    values["index.distance_max"] = parameters.distance_max
    if root is not None:
        values["index.root_distance_max"] = root.distance_max
    if isinstance(look, second_look.CosineLook):
        values["second_look.cosine_min"] = look.cosine_min
    elif isinstance(look, second_look.MetadataLook):
        values["second_look.similarity_min"] = look.similarity_min
        values["second_look.content_weight"] = look.content_weight
    return values


_PARTNERS = {OLDER_VERSION: "the version that it replaces", LOOKALIKE: "the page that it resembles"}


def measure_of(role: str | None, likeness: Likeness | None, parameters: Parameters) -> str:
    """A record's likeness to the named document, compared with the settings; empty without one."""
    if role is None:
        return ""
    if role != ORIGINAL:
        return "" if likeness is None else f"It is {alike(likeness)} {_PARTNERS[role]}."
    if likeness is None:
        return "Their likeness is unknown: the decision was restored from the outputs."
    partner = "the original"
    if likeness.distance == 0 or likeness.similarity == 1:
        return f"It equals {partner} in all that is compared."
    if parameters.scheme != "minhash" and likeness.similarity is not None:
        least = f"{parameters.look.similarity_min:g}" if isinstance(parameters.look, second_look.MetadataLook) else "?"
        return f"It is {likeness.similarity:g} similar to {partner} by text and metadata; the minimum is {least}."
    return _within_limits(likeness, partner, parameters)


def alike(likeness: Likeness) -> str:
    """Likeness of two documents, in words before a name.

    >>> alike(Likeness(similarity=0.9))
    '0.9 similar to'
    """
    measures = []
    if likeness.similarity is not None:
        measures.append(f"{likeness.similarity:g} similar to")
    if likeness.distance is not None:
        measures.append("1 bit apart from" if likeness.distance == 1 else f"{likeness.distance} bits apart from")
    return " and ".join(measures)


def _within_limits(likeness: Likeness, partner: str, parameters: Parameters) -> str:
    """Likeness compared with the limits for a match and for an original."""
    measure, limit = f"It is {alike(likeness)} {partner}", parameters.distance_max
    of_root = limit if parameters.root is None else parameters.root.distance_max
    if likeness.similarity is not None:
        distance, bound, extreme, to = minhash.distance_of(likeness.similarity), "at least", "minimum", "to"
        match, original = (f"{minhash.similarity_of(each):g}" for each in (limit, of_root))
    else:
        assert likeness.distance is not None
        distance, bound, extreme, to = likeness.distance, "at most", "maximum", "from"
        match, original = str(limit), str(of_root)
    look = ""
    if isinstance(parameters.look, second_look.CosineLook):
        cosine = "" if likeness.cosine is None else f" of {likeness.cosine:.2f}"
        look = f". The second look agreed: a cosine{cosine}; the minimum is {parameters.look.cosine_min:g}"
    if distance <= limit:
        return f"{measure}; the {extreme} is {match}{look}."
    if distance > of_root:
        return f"{measure}, enough at that time; the current settings require {bound} {match}."
    return f"{measure}, {bound} the {original} that an original needs, and {bound} {match} {to} another duplicate of it{look}."
