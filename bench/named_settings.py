"""Short names of settings of both schemes, as the benchmarks take and print them."""

import re
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from index.matching.minhash import distance_of
from index.matching.second_look import Look, MetadataLook
from index.storage.parameters import Parameters
from streamer.evaluation.scores import entering_all
from streamer.fingerprint.scheme import parameters_for
from streamer.settings.presets import METHOD_PRESETS
from streamer.settings.settings import Decode, Fingerprint, Index, Minhash, SecondLook, Section, Settings, load

Hashing = Fingerprint | Minhash

Policy = Literal["unique", "root", "all"]
"""Documents that enter: as `index.insert` says, or with "all" those of `streamer.evaluation.scores.entering_all`."""

_NAME = re.compile(
    r"((?P<preset>simhash-[a-z]+(-[12])?)|(?P<features>words|shingles(?P<shingle_words>\d+))-(?P<log>log-?)?tf)"
    r"-(?P<bits>64|128)-(?P<distance>\d+)"
    r"(?P<rest>(-(min|chars|markers|title)\d+|-unique|-root|-all|-jieba|-compiled|-particles|-idf|-topic|-length|-simplify|-html"
    r"|-pos([a-z]+[0-9.]+)+|-cosine[01]\.?\d*|-cells\d+|-metadata)*)"
)
_POLICIES: dict[str, Policy] = {policy: policy for policy in get_args(Policy)}
_SWITCHES: dict[str, tuple[str, object]] = {
    "jieba": ("segmenter", "jieba"),
    "compiled": ("segmenter", "compiled"),
    "particles": ("stop_words", "particles"),
    "idf": ("idf", "jieba"),
    "topic": ("topic_length", True),
    "length": ("word_length", True),
    "simplify": ("simplify", True),
    "html": ("markup", "html"),
}
_NUMBERS = {
    "min": "features_min",
    "chars": "character_shingle_size",
    "markers": "marker_factor",
    "title": "title_factor",
}
_MINHASH_NAME = re.compile(
    r"minhash-(?P<bins>64|128|256)x(?P<bin_bits>4|8)-(k(?P<wide>\d+)/(?P<narrow>\d+)|w(?P<words>\d+))"
    r"-(?P<similarity>0\.\d+|1\.0)"
    r"(?P<rest>(-min\d+|-b\d+|-unique|-root|-all)*)"
)
_SECOND_LOOK = SecondLook()


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to run the filter, with a full name. `bands`: None for those that the product derives."""

    fingerprint: Fingerprint
    distance_max: int
    insert: Policy
    minhash: Minhash | None = None
    bands: int | None = None
    second_look: SecondLook = _SECOND_LOOK

    def __post_init__(self) -> None:
        if self.insert == "all" and self.look is not None:
            raise ValueError(
                "a second look judges roots too, so it names no setting with `all`: write `unique` or `root`"
            )

    @property
    def look(self) -> Look | None:
        """Second look that decides which pairs count."""
        return self.second_look.look(self.fingerprint.second_look)

    @property
    def hashing(self) -> Hashing:
        """Settings that make the fingerprints."""
        return self.minhash or self.fingerprint

    @property
    def settings(self) -> Settings:
        """The product's settings; `insert` of "all" is "unique" here."""
        insert = "unique" if self.insert == "all" else self.insert
        sections: dict[str, Section | dict[str, Any]] = {
            # Whole, so that nothing of it follows from the scheme.
            "fingerprint": self.fingerprint.model_dump(),
            "second_look": self.second_look,
            "index": Index(distance_max=self.distance_max if self.minhash is None else 0, insert=insert),
            "decode": Decode(metadata=["/metadata"]),
        }
        if self.minhash is not None:
            sections["minhash"] = self.minhash
        return Settings.model_validate(sections)

    @property
    def parameters(self) -> Parameters:
        """Parameters of an index for this setting."""
        parameters = parameters_for(self.settings, {"bench": self.name})
        if self.insert == "all":
            parameters = entering_all(parameters)
        if self.bands is None or parameters.banding is None:
            return parameters
        return replace(parameters, banding=replace(parameters.banding, bands=self.bands))

    @property
    def name(self) -> str:
        """Name that `parse` reads back."""
        if self.minhash is not None:
            of = self.minhash
            characters = f"k{of.shingle_characters_wide}/{of.shingle_characters_narrow}"
            kind = characters if of.shingles == "characters" else f"w{of.shingle_words}"
            bands = "" if self.bands is None else f"-b{self.bands}"
            shape = f"{of.bins}x{of.bin_bits}"
            return f"minhash-{shape}-{kind}-{of.similarity_min}-min{of.features_min}{bands}-{self.insert}"
        chosen = self.fingerprint
        kind = "words" if chosen.features == "words" else f"shingles{chosen.shingle_words}"
        numbers = {word: getattr(chosen, key) for word, key in _NUMBERS.items()}
        switched = [f"-{word}{number}" for word, number in numbers.items() if number > 1 or word in ("min", "chars")]
        switched += [f"-{word}" for word, (key, value) in _SWITCHES.items() if getattr(chosen, key) == value]
        if chosen.part_of_speech is not None:
            switched.append("-pos" + chosen.part_of_speech.replace("=", "").replace(",", ""))
        if chosen.second_look == "cosine":
            switched.append(f"-cosine{self.second_look.cosine_min}-cells{self.second_look.cosine_cells}")
        elif chosen.second_look == "metadata":
            switched.append("-metadata")
        return f"{kind}-{chosen.weight}-{chosen.bits}-{self.distance_max}{''.join(switched)}-{self.insert}"


def parse(name: str) -> Setting:
    """Setting of a name. Whatever the name leaves out stays as shipped. Raises ValueError.

    SimHash  `words|shinglesK - tf|log-tf` or a preset, then `- 64|128 - distance_max`, then any parts in any order: the
             words of _SWITCHES; those of _NUMBERS with a number; `pos` with tags and factors (posn2v2); `cosine` with
             the least cosine (cosine0.8), and `cells` with a number; `metadata` (distance_max then follows); `unique`
             or `all`
    MinHash  `minhash - BINSxBITS - kWIDE/NARROW - similarity_min`, with `wWORDS` in place of `kWIDE/NARROW` for shingles
             of words, then any of `-minN -bBANDS -unique -all`

    A preset alone is the whole method; with length and distance it is without its second look. `simhash` and `minhash`
    alone are the schemes as shipped; `default` is the one of them that is the default.
    """
    if name == "default":
        name = Fingerprint().scheme
    whole, _, policy = name.rpartition("-") if name.endswith(("-unique", "-all")) else (name, "", "")
    if whole == "simhash" or (whole in METHOD_PRESETS and whole != "minhash"):
        scheme = [f"fingerprint.scheme={whole}"] if whole == "simhash" else []
        settings = load(None, scheme, {}, preset=None if scheme else whole)
        index, chosen = settings.index, settings.minhash
        entering = _POLICIES[policy or index.insert]
        if settings.fingerprint.scheme == "minhash":
            return Setting(settings.fingerprint, distance_of(chosen.similarity_min), entering, chosen)
        return Setting(settings.fingerprint, index.distance_max, entering, second_look=settings.second_look)
    if name.startswith("minhash"):
        return _parse_minhash(name)
    match = _NAME.fullmatch(name)
    if match is None or (match["preset"] and match["preset"] not in METHOD_PRESETS):
        raise ValueError(f"{name!r} names no setting; an example is shingles2-log-tf-64-3-min8-unique")
    values = Fingerprint(scheme="simhash").model_dump()
    if match["preset"]:
        values = load(None, [], {}, preset=match["preset"]).fingerprint.model_dump() | {"second_look": "none"}
    if match["features"]:
        values["features"] = "words" if match["features"] == "words" else "shingles"
        values["weight"] = "log-tf" if match["log"] else "tf"
    if match["shingle_words"]:
        values["shingle_words"] = int(match["shingle_words"])
    values["bits"] = int(match["bits"])
    insert: Policy = "unique"
    look_values = SecondLook().model_dump()
    for part in filter(None, match["rest"].split("-")):
        word, number = part.rstrip("0123456789"), part.lstrip("abcdefghijklmnopqrstuvwxyz")
        if part in _POLICIES:
            insert = _POLICIES[part]
        elif part in _SWITCHES:
            key, value = _SWITCHES[part]
            values[key] = value
        elif word in _NUMBERS:
            values[_NUMBERS[word]] = int(number)
        elif part.startswith("cosine"):
            values["second_look"], look_values["cosine_min"] = "cosine", float(part.removeprefix("cosine"))
        elif word == "cells":
            look_values["cosine_cells"] = int(number)
        elif part == "metadata":
            values["second_look"] = "metadata"
        else:
            pairs = re.findall(r"([a-z]+)([0-9.]+)", part.removeprefix("pos"))
            values["part_of_speech"] = ",".join(f"{tag}={factor}" for tag, factor in pairs)
    fingerprint, second_look = Fingerprint.model_validate(values), SecondLook.model_validate(look_values)
    look = second_look.look(fingerprint.second_look)
    distance_max = look.reach if isinstance(look, MetadataLook) else int(match["distance"])
    return Setting(fingerprint, distance_max, insert, second_look=second_look)


def _parse_minhash(name: str) -> Setting:
    values: dict[str, object] = Minhash().model_dump()
    insert: Policy = Index().insert
    bands = None
    if name != "minhash":
        match = _MINHASH_NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"{name!r} names no setting; an example is minhash-128x8-k5/8-0.7-min8-unique")
        values |= {
            "bins": int(match["bins"]),
            "bin_bits": int(match["bin_bits"]),
            "similarity_min": float(match["similarity"]),
        }
        if match["words"]:
            values |= {"shingles": "words", "shingle_words": int(match["words"])}
        else:
            values |= {"shingle_characters_wide": int(match["wide"]), "shingle_characters_narrow": int(match["narrow"])}
        for part in filter(None, match["rest"].split("-")):
            if part in _POLICIES:
                insert = _POLICIES[part]
            elif part.startswith("min"):
                values["features_min"] = int(part[3:])
            else:
                bands = int(part[1:])
    chosen = Minhash.model_validate(values)
    return Setting(Fingerprint(scheme="minhash"), distance_of(chosen.similarity_min), insert, chosen, bands)
