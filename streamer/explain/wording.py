"""Sentences and settings for each verdict and reason. A new verdict or reason is a line here."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from index import Parameters, errors, minhash, second_look
from streamer.explain.explanation import Likeness, Rule
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.presets import PRESETS
from streamer.settings.settings import Settings

ORIGINAL, OLDER_VERSION, LOOKALIKE = "original", "older version", "lookalike"
"""Role of the document that a verdict names: the one kept, the one replaced, or one with the same template."""

Keys = Callable[[Parameters], Sequence[str]]
"""The section.key of settings that take part under these parameters, in order of weight."""


class Wording(NamedTuple):
    """A record's fate and its cause, the settings that took part, and the named document's role."""

    sentence: str
    keys: Keys
    role: str = ORIGINAL


def _none(_: Parameters) -> Sequence[str]:
    return ()


def _keys(*keys: str) -> Keys:
    return lambda _: keys


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


def _crafted(parameters: Parameters) -> Sequence[str]:
    return ("guard.crafted", *_matching(parameters))


def _recrawled(parameters: Parameters) -> Sequence[str]:
    return ("index.recrawl", *_matching(parameters))


def _recrawled_short(parameters: Parameters) -> Sequence[str]:
    return ("index.recrawl", *_short(parameters))


def _minor(_: Parameters) -> Sequence[str]:
    return ("index.recrawl_minor", "index.recrawl_history")


def _of_template(parameters: Parameters) -> Sequence[str]:
    return ("index.templates", *_matching(parameters))


def _guarded(parameters: Parameters) -> Sequence[str]:
    return ("guard.policy", "guard.share_max", "guard.documents_min", *_matching(parameters))


_MINOR = {
    "duplicate": "Dropped: the page came again under its id, and only counters and dates differ, or it returns to earlier texts "
    "again and again.",
    "update": "Kept as an update: the page came again under its id, and only counters and dates differ.",
    "unique": "Kept: the page came again under its id, and only counters and dates differ.",
}

_WORDINGS = {
    ("unique", "no-match"): Wording("Kept: nothing that counted then was near enough.", _matching),
    ("duplicate", "similar"): Wording("Dropped as a near-duplicate of the original.", _matching),
    ("duplicate", "same-text"): Wording("Dropped: its normalised text equals the original's.", _matching),
    ("suspect", "host-beyond-limits"): Wording(
        "Kept as a suspect: it is a near-duplicate of the original, but most of its site's recent pages were, as pages of one "
        "template are. So the guard let it pass.",
        _guarded,
    ),
    ("unique", "short-text-new"): Wording(
        "Kept: the text is too short to tell likeness, and no equal one counted then.", _short
    ),
    ("duplicate", "short-text-same"): Wording(
        "Dropped: the text is too short to tell likeness, and equals the original's.", _short
    ),
    ("unique", "recrawled"): Wording(
        "Kept: the page came again under its id with another text, which is near to nothing but to its own older one.",
        _recrawled,
    ),
    ("unique", "short-text-recrawled"): Wording(
        "Kept: the page came again under its id with another text, too short to tell likeness.", _recrawled_short
    ),
    ("update", "recrawled"): Wording(
        "Kept as an update: the page came again under its id with another text, which takes the place of the old one.",
        _recrawled,
        OLDER_VERSION,
    ),
    ("update", "short-text-recrawled"): Wording(
        "Kept as an update: the page came again under its id with another text, too short to tell likeness, which takes the "
        "place of the old one.",
        _recrawled_short,
        OLDER_VERSION,
    ),
    **{
        (verdict, reason): Wording(_MINOR[verdict], _minor, OLDER_VERSION)
        for verdict in ("duplicate", "update", "unique")
        for reason in ("update-minor", "update-minor-short-text")
    },
    ("unique", "template"): Wording(
        "Kept: it resembles pages of its host by what they all share alone, and has a text of its own.",
        _of_template,
        LOOKALIKE,
    ),
    ("given-back", "given-back"): Wording(
        "Given back: a person took the drop back, so it went out with the unique ones, and stands for itself.", _none
    ),
    ("undecidable", "no-features"): Wording(
        "Kept undecided: the text has nothing to compare, no letters and no digits. It went out with the unique ones.",
        _none,
    ),
    ("unique", "crafted"): Wording(
        "Kept: the text holds a line crafted to match others, or to hide. Without it nothing that counted then was near enough.",
        _crafted,
    ),
    ("duplicate", "crafted"): Wording(
        "Dropped: without a line that was crafted to hide it, the text is a near-duplicate of the original.", _crafted
    ),
    ("suspect", "crafted"): Wording(
        "Kept as a suspect: the text holds a crafted line, and without it is a near-duplicate that the guard let pass.",
        _guarded,
    ),
    ("update", "crafted"): Wording(
        "Kept as an update: the page came again under its id with another text, which holds a crafted line.",
        _recrawled,
        OLDER_VERSION,
    ),
    ("unique", "crafted-template"): Wording(
        "Kept: without a crafted line it resembles pages of its host by what they all share alone.",
        _of_template,
        LOOKALIKE,
    ),
    ("unique", "crafted-recrawled"): Wording(
        "Kept: the page came again under its id with another text, which holds a crafted line.", _recrawled
    ),
    ("undecidable", "crafted"): Wording(
        "Kept undecided: the text holds lines crafted to match others, or to hide, and matches nothing. It went out with the "
        "unique ones.",
        _keys("guard.crafted"),
    ),
    ("dead-letter", "tombstone"): Wording(
        "Put among the dead letters: the record has no value. In a compacted topic that deletes its key.", _none
    ),
    ("dead-letter", "too-large"): Wording(
        "Put among the dead letters: it is larger than the settings allow.",
        _keys("decode.value_bytes_max", "decode.characters_max"),
    ),
    ("dead-letter", "not-utf-8"): Wording("Put among the dead letters: wrong charset.", _keys("decode.charset")),
    ("dead-letter", "not-json"): Wording("Put among the dead letters: it is no JSON.", _keys("decode.format")),
    ("dead-letter", "nested-too-deep"): Wording(
        "Put among the dead letters: its JSON is nested deeper than the parser goes.", _none
    ),
    ("dead-letter", "not-of-registry"): Wording(
        "Put among the dead letters: it does not begin with byte 0 and the id of a schema.", _keys("decode.format")
    ),
    ("dead-letter", "schema-unknown"): Wording(
        "Put among the dead letters: the registry has no schema of Avro under the id that it names.",
        _keys("decode.format"),
    ),
    ("dead-letter", "not-avro"): Wording(
        "Put among the dead letters: its bytes are no Avro of the schema that it names.", _keys("decode.format")
    ),
    ("dead-letter", "no-text"): Wording(
        "Put among the dead letters: it has no text where the settings look for one.",
        _keys("decode.text", "decode.preset"),
    ),
    ("dead-letter", "text-not-string"): Wording(
        "Put among the dead letters: what stands where the text should be is no text.",
        _keys("decode.text", "decode.preset"),
    ),
    ("dead-letter", "unreadable"): Wording(
        "Put among the dead letters: the records from this position on are damaged in the topic, and were skipped.",
        _keys("recovery.unreadable"),
    ),
    ("dead-letter", "poison"): Wording(
        "Put among the dead letters: every process that decoded or fingerprinted it ended, or took too long.",
        _keys("workers.deaths_max", "workers.document_timeout_ms"),
    ),
}
"""By labels, as headers have them."""


def wording_of(verdict: str, reason: str) -> Wording:
    """Wording for a verdict's and a reason's label; their bare names without an entry."""
    return _WORDINGS.get((verdict, reason)) or Wording(f"{verdict.capitalize()}: {reason}.", _none)


def deciding(parameters: Parameters, settings: Settings) -> Parameters:
    """Parameters for decisions: the index's, with the settings' thresholds if nothing else differs."""
    try:
        return parameters.deciding(
            parameters_for(settings, dict(parameters.fingerprint)), str(settings.index.directory)
        )
    except errors.ParametersDiffer:
        return parameters


def rules_of(
    wording: Wording, settings: Settings, parameters: Parameters, stored: Parameters | None = None
) -> tuple[Rule, ...]:
    """The settings that took part, by the parameters that decide now; `stored`: those in the index's stamp."""
    values, stamped = _stamped(parameters), _stamped(stored or parameters)
    rules = []
    for key in wording.keys(parameters):
        section, _, name = key.partition(".")
        holder = getattr(settings, section)
        value = values.get(key, getattr(holder, name))
        if key == "decode.text" and value is None:
            value = PRESETS[settings.decode.preset].text
        meaning = type(holder).model_fields[name].description or ""
        rules.append(Rule(key, _value_text(value), key in stamped and stamped[key] == value, meaning))
    return tuple(rules)


def _stamped(parameters: Parameters) -> dict[str, Any]:
    look, root = parameters.look, parameters.root
    found: dict[str, Any] = {"index.insert": parameters.insert}
    if "features_min" in parameters.fingerprint:
        section = "minhash" if parameters.scheme == "minhash" else "fingerprint"
        found[f"{section}.features_min"] = parameters.fingerprint["features_min"]
    if parameters.scheme == "minhash":
        found["minhash.similarity_min"] = minhash.similarity_of(parameters.distance_max)
        if root is not None:
            found["index.root_similarity_min"] = minhash.similarity_of(root.distance_max)
        return found
    found["index.distance_max"] = parameters.distance_max
    if root is not None:
        found["index.root_distance_max"] = root.distance_max
    if isinstance(look, second_look.CosineLook):
        found["second_look.cosine_min"] = look.cosine_min
    elif isinstance(look, second_look.MetadataLook):
        found["second_look.similarity_min"] = look.similarity_min
        found["second_look.content_weight"] = look.content_weight
    return found


def _value_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


_PARTNERS = {OLDER_VERSION: "the version that it replaces", LOOKALIKE: "the page that it resembles"}


def measure_of(role: str | None, likeness: Likeness | None, parameters: Parameters) -> str:
    """A record's likeness to the named document, compared with the settings; empty without one."""
    if role is None:
        return ""
    if role != ORIGINAL:
        return "" if likeness is None else f"It is {alike(likeness)} {_PARTNERS[role]}."
    if likeness is None:
        return "How alike they are is not known: the decision was restored from the outputs."
    partner = "its match, the original or another duplicate of it" if parameters.insert == "all" else "the original"
    if likeness.distance == 0 or likeness.similarity == 1:
        return f"It equals {partner} in all that is compared."
    if parameters.scheme == "minhash":
        return _minhash_measure(likeness, partner, parameters)
    if likeness.similarity is not None:
        least = f"{parameters.look.similarity_min:g}" if isinstance(parameters.look, second_look.MetadataLook) else "?"
        return f"It is {likeness.similarity:g} similar to {partner} by text and metadata, where {least} is enough."
    return _simhash_measure(likeness, partner, parameters)


def alike(likeness: Likeness) -> str:
    """Likeness of two documents, in words before a name."""
    told = []
    if likeness.similarity is not None:
        told.append(f"{likeness.similarity:g} similar to")
    if likeness.distance is not None:
        told.append("1 bit apart from" if likeness.distance == 1 else f"{likeness.distance} bits apart from")
    return " and ".join(told)


def _minhash_measure(likeness: Likeness, partner: str, parameters: Parameters) -> str:
    assert likeness.similarity is not None
    least, root = minhash.similarity_of(parameters.distance_max), parameters.root
    told = f"It is {likeness.similarity:g} similar to {partner}"
    if likeness.similarity >= least:
        return f"{told}, where {least:g} is enough."
    of_root = None if root is None else minhash.similarity_of(root.distance_max)
    if of_root is None or likeness.similarity < of_root:
        return f"{told}, which was enough then; the settings in force ask for {least:g}."
    return f"{told}, and at least {least:g} to another duplicate of it, which made it one; to the original {of_root:g} is enough."


def _simhash_measure(likeness: Likeness, partner: str, parameters: Parameters) -> str:
    assert likeness.distance is not None
    bits = "1 bit" if likeness.distance == 1 else f"{likeness.distance} bits"
    told = f"Its fingerprint is {bits} apart from that of {partner}"
    look = ""
    if isinstance(parameters.look, second_look.CosineLook):
        cosine = "" if likeness.cosine is None else f" of {likeness.cosine:.2f}"
        look = f", and the second look agreed: a cosine{cosine}, where {parameters.look.cosine_min:g} is enough"
    if likeness.distance <= parameters.distance_max:
        return f"{told}, where up to {parameters.distance_max} is near enough{look}."
    if parameters.root is None or likeness.distance > parameters.root.distance_max:
        return f"{told}, which was near enough then; the settings in force ask for at most {parameters.distance_max}."
    return (
        f"{told}, and at most {parameters.distance_max} from that of another duplicate of it, which made it one; from the "
        f"original's {parameters.root.distance_max} is enough{look}."
    )
