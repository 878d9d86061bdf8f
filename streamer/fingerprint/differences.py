"""What an index was made with against what is asked now, by the names of settings."""

from collections.abc import Mapping

from index import minhash
from index.errors import Difference, ParametersDifferError
from streamer.settings.settings import Settings
from streamer.settings.values import fields

_SETTINGS: Mapping[str, str] = {
    "scheme": "fingerprint.scheme",
    "fingerprint.scope": "decode.scope",
    "bits": "fingerprint.bits",
    "distance_max": "index.distance_max",
    "similarity_min": "minhash.similarity_min",
    "banding.bins": "minhash.bins",
    "banding.bin_bits": "minhash.bin_bits",
    "look.kind": "fingerprint.second_look",
    "frames.pages_min": "index.templates",
    "frames.sample_max": "index.templates",
    "frames.every": "index.templates",
}

_FOLLOWING = {"banding.bands", "banding.rows", "root.member_distance_min", "fingerprint.hash"}
"""Columns that follow from others."""


def by_settings(problem: ParametersDifferError, scheme: str) -> ParametersDifferError:
    """The same error with a line for each setting that differs, in place of the index's columns.

    scheme  `fingerprint.scheme` of the settings

    >>> columns = Difference("frames.every", "4", None), Difference("frames.sample_max", "128", None)
    >>> by_settings(ParametersDifferError("seen", columns), "minhash").differences
    (Difference(name='index.templates', stored='true', asked='false'),)
    """
    names = {each.name for each in problem.differences}
    following, is_minhash = set(_FOLLOWING), scheme == "minhash"
    if is_minhash:
        # They are those of the bins.
        following.add("bits")
    if "look.kind" in names:
        following |= {name for name in names if name.startswith("look.")} - {"look.kind"} | {"fingerprint.second_look"}
    told: dict[str, Difference] = {}
    for each in problem.differences:
        if each.name not in following:
            named = _named(each, is_minhash=is_minhash)
            told.setdefault(named.name, named)
    return type(problem)(problem.where, tuple(told.values()) or problem.differences)


def _named(each: Difference, *, is_minhash: bool) -> Difference:
    if each.name.startswith("frames."):
        stored, asked = (str(value is not None).lower() for value in (each.stored, each.asked))
        return Difference("index.templates", stored, asked)
    if each.name == "root.distance_max" and is_minhash:
        return Difference("index.root_similarity_min", _similarity(each.stored), _similarity(each.asked))
    return each._replace(name=_setting(each.name, is_minhash=is_minhash))


def _similarity(distance: str | None) -> str | None:
    return None if distance is None else f"{minhash.similarity_of(int(distance)):g}"


def _setting(column: str, *, is_minhash: bool) -> str:
    if column == "root.distance_max":
        return "index.root_distance_max"
    if column in _SETTINGS:
        return _SETTINGS[column]
    settings, name = fields(Settings), column.split(".")[-1]
    sections = ("minhash", "fingerprint", "index") if is_minhash else ("fingerprint", "minhash", "index")
    keys = (f"{section}.{name}" for section in (("second_look",) if column.startswith("look.") else sections))
    return next((key for key in keys if key in settings), f"{column} (the program's, no setting)")
