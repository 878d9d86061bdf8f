"""What the accuracy bench computes, without files and tables: settings by name, decisions, truth and scores."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
import regex

from index.bands import Banding, band_keys, distance_of, signature_distances
from index.entry import Kind
from index.looks import Look, MetadataLook
from index.parameters import Parameters
from streamer import config
from streamer.fingerprint import Fingerprinter, Fingerprints
from streamer.minhash import MinHasher
from streamer.recipes import RECIPES
from streamer.scheme import Scheme, parameters_for
from streamer.text import normalise

Insert = Literal["unique", "all"]
Hashing = config.Fingerprint | config.Minhash

DUPLICATE_MIN = 0.8
"""Jaccard similarity with an earlier document from which on a document is a duplicate."""

UNIQUE_BELOW = 0.5
"""Below this similarity with every earlier document it is unique; between the two lies the grey."""

_NAME = re.compile(
    r"((?P<recipe>classic|improved-1|improved-2)|(?P<features>words|shingles(?P<shingle_words>\d+))-(?P<log>log-?)?tf)"
    r"-(?P<bits>64|128)-(?P<distance>\d+)"
    r"(?P<rest>(-(min|chars|markers|title)\d+|-unique|-all|-jieba|-compiled|-idf|-topic|-length|-simplify|-html"
    r"|-pos([a-z]+[0-9.]+)+|-cosine[01]\.?\d*|-cells\d+|-metadata)*)"
)
_SWITCHES: dict[str, tuple[str, object]] = {
    "jieba": ("segmenter", "jieba"),
    "compiled": ("segmenter", "compiled"),
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
    r"(?P<rest>(-min\d+|-b\d+|-unique|-all)*)"
)
_TOKEN = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}]|[[\p{L}\p{N}]--[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}]]+",
    regex.VERSION1,
)
_BLOCK_ROWS = 256
_SECOND_LOOK = config.SecondLook()


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to run the filter, and its full name. `bands`: where not those that the product derives."""

    fingerprint: config.Fingerprint
    distance_max: int
    insert: Insert
    minhash: config.Minhash | None = None
    bands: int | None = None
    second_look: config.SecondLook = _SECOND_LOOK

    @property
    def look(self) -> Look | None:
        """The second look that decides which pairs count."""
        return self.second_look.look(self.fingerprint.second_look)

    @property
    def hashing(self) -> Hashing:
        """The settings that make the fingerprints."""
        return self.minhash or self.fingerprint

    @property
    def parameters(self) -> Parameters:
        """What an index for it is built with."""
        sections: dict[str, config.Section] = {
            "fingerprint": self.fingerprint,
            "second_look": self.second_look,
            "index": config.Index(distance_max=self.distance_max if self.minhash is None else 0, insert=self.insert),
            "decode": config.Decode(metadata=["/metadata"]),
        }
        if self.minhash is not None:
            sections["minhash"] = self.minhash
        parameters = parameters_for(config.Settings.model_validate(sections), {"bench": self.name})
        if self.bands is None or parameters.banding is None:
            return parameters
        return replace(parameters, banding=replace(parameters.banding, bands=self.bands))

    @property
    def name(self) -> str:
        """The name that `parse` reads back."""
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
    """`words|shinglesK - tf|log-tf` or a recipe, then `- 64|128 - distance_max`, then any parts in any order.

    Parts: the words of _SWITCHES, those of _NUMBERS with a number, `pos` with tags and factors (posn2v2), `cosine`
    with the least cosine (cosine0.8) and `cells` with a number, `metadata` (distance_max then follows), `unique` or
    `all`. Or `minhash - BINSxBITS - kWIDE/NARROW - similarity_min`, for shingles of words `wWORDS` in place of
    `kWIDE/NARROW`, then any of `-minN -bBANDS -unique -all`; `minhash` alone is the scheme with its settings as shipped.
    So is `simhash` alone; `default` is the one of the two that the product ships. What is not named stays as shipped.
    Raises ValueError.
    """
    shipped, shipped_index = config.Fingerprint(scheme="simhash"), config.Index()
    if name == "default":
        name = config.Fingerprint().scheme
    if name == "simhash":
        return Setting(shipped, shipped_index.distance_max, shipped_index.insert)
    if name.startswith("minhash"):
        return _parse_minhash(name)
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} names no setting; an example is shingles2-log-tf-64-3-min8-unique")
    # A setting is known by what it does: a recipe is spelt out.
    values = shipped.model_dump() | dict(RECIPES[match["recipe"] or "default"])
    if match["features"]:
        values["features"] = "words" if match["features"] == "words" else "shingles"
        values["weight"] = "log-tf" if match["log"] else "tf"
    if match["shingle_words"]:
        values["shingle_words"] = int(match["shingle_words"])
    values["bits"] = int(match["bits"])
    insert: Insert = shipped_index.insert
    look_values = config.SecondLook().model_dump()
    for part in filter(None, match["rest"].split("-")):
        word, number = part.rstrip("0123456789"), part.lstrip("abcdefghijklmnopqrstuvwxyz")
        if part in ("unique", "all"):
            insert = "unique" if part == "unique" else "all"
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
    fingerprint, second_look = config.Fingerprint.model_validate(values), config.SecondLook.model_validate(look_values)
    look = second_look.look(fingerprint.second_look)
    distance_max = look.reach if isinstance(look, MetadataLook) else int(match["distance"])
    return Setting(fingerprint, distance_max, insert, second_look=second_look)


def _parse_minhash(name: str) -> Setting:
    values: dict[str, object] = config.Minhash().model_dump()
    insert: Insert = config.Index().insert
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
            if part in ("unique", "all"):
                insert = "unique" if part == "unique" else "all"
            elif part.startswith("min"):
                values["features_min"] = int(part[3:])
            else:
                bands = int(part[1:])
    chosen = config.Minhash.model_validate(values)
    return Setting(config.Fingerprint(scheme="minhash"), distance_of(chosen.similarity_min), insert, chosen, bands)


def hasher_for(chosen: Hashing, look: Look | None = None) -> Scheme:
    """What makes fingerprints by these settings, with what a second look asks for."""
    return MinHasher(chosen) if isinstance(chosen, config.Minhash) else Fingerprinter(chosen, look)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of documents by row number, the later one first: sorted by later, then value's rank, then earlier.

    values are distances (nearest first) or similarities (any order).
    """

    later: npt.NDArray[np.int64]
    earlier: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


def distances(left: npt.NDArray[np.uint64], right: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Hamming distance row by row."""
    return np.asarray(np.bitwise_count(left ^ right).sum(axis=-1, dtype=np.int64))


def counting(pairs: Pairs, prints: Fingerprints, distance_max: int, look: Look | None) -> Pairs:
    """Those pairs within the distance that a second look lets count, at the distances that it tells; EXACT as before."""
    near = pairs.values <= distance_max
    later, earlier, values = pairs.later[near], pairs.earlier[near], pairs.values[near]
    if look is not None:
        assert prints.looks is not None
        judged = look.judge(values.astype(np.int16), prints.looks[later], prints.looks[earlier])
        exact = prints.kinds[later] == Kind.EXACT
        counts, values = judged.counts | exact, np.where(exact, values, judged.distances).astype(np.float64)
        later, earlier, values = later[counts], earlier[counts], values[counts]
    order = np.lexsort((earlier, values, later))
    return Pairs(later[order], earlier[order], values[order])


def near_pairs(prints: Fingerprints, distance_max: int, banding: Banding | None = None) -> Pairs:
    """Every pair that may match: NEAR rows within `distance_max`, EXACT rows with equal fingerprints. Brute force.

    banding  the fingerprints are MinHash signatures of this shape; pairs are found whether they share a band or not
    """
    parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    for kind, limit in ((Kind.NEAR, distance_max), (Kind.EXACT, 0)):
        rows = np.flatnonzero(prints.kinds == kind)
        of_kind = prints.fingerprints[rows]
        for begin in range(0, len(rows), _BLOCK_ROWS):
            end = min(begin + _BLOCK_ROWS, len(rows))
            apart = _table(of_kind[begin:end], of_kind[:end], banding if kind is Kind.NEAR else None)
            high, low = np.nonzero(apart <= limit)
            earlier = low < high + begin
            high, low = high[earlier], low[earlier]
            parts.append((rows[high + begin], rows[low], apart[high, low].astype(np.int64)))
    later = np.concatenate([part[0] for part in parts]) if parts else np.zeros(0, np.int64)
    earlier_rows = np.concatenate([part[1] for part in parts]) if parts else np.zeros(0, np.int64)
    values = np.concatenate([part[2] for part in parts]) if parts else np.zeros(0, np.int64)
    order = np.lexsort((earlier_rows, values, later))
    return Pairs(later[order], earlier_rows[order], values[order].astype(np.float64))


def _table(
    some: npt.NDArray[np.uint64], others: npt.NDArray[np.uint64], banding: Banding | None
) -> npt.NDArray[np.int16]:
    """The distance of each of some fingerprints to each of others."""
    apart = np.zeros((len(some), len(others)), np.int16)
    if banding is None:
        for one, other in zip(some.T, np.ascontiguousarray(others.T), strict=True):
            apart += np.bitwise_count(one[:, None] ^ other[None, :])
    else:
        for row, one in enumerate(some):
            apart[row] = signature_distances(np.broadcast_to(one, others.shape), others, banding.bin_bits)
    return apart


def decide(pairs: Pairs, count: int, distance_max: int, insert: Insert) -> npt.NDArray[np.int64]:
    """The index's decisions by the letter: per row the number of its original, -1 where it is no duplicate.

    A row's match is the nearest entry, the earliest of equally near ones; its original is the unique row at the root.
    """
    originals = np.full(count, -1, np.int64)
    entered = np.ones(count, np.bool_)
    within = pairs.values <= distance_max
    later, earlier = pairs.later[within], pairs.earlier[within]
    for begin, end in _runs(later):
        candidates = earlier[begin:end]
        candidates = candidates[entered[candidates]]
        if len(candidates):
            match, row = candidates[0], later[begin]
            originals[row] = originals[match] if originals[match] >= 0 else match
            entered[row] = insert == "all"
    return originals


def policy_similarities(pairs: Pairs, count: int, insert: Insert) -> npt.NDArray[np.float64]:
    """Per row the largest similarity with an earlier document that this policy would have kept, by exact similarity.

    With `all` that is every earlier document; with `unique` those that are themselves below DUPLICATE_MIN.
    """
    largest = np.zeros(count)
    for begin, end in _runs(pairs.later):
        kept = np.ones(end - begin, np.bool_) if insert == "all" else largest[pairs.earlier[begin:end]] < DUPLICATE_MIN
        largest[pairs.later[begin]] = pairs.values[begin:end].max(initial=0.0, where=kept)
    return largest


@dataclass(frozen=True, slots=True)
class Score:
    """How well decisions agree with the truth. `flagged_grey` counts duplicates found in the grey, neither way."""

    true_duplicates: int
    false_duplicates: int
    missed: int
    non_duplicates: int
    flagged_grey: int
    undecidable: int

    @property
    def precision(self) -> float:
        """Share of the flagged, the grey apart, that are duplicates; 1 where nothing was flagged."""
        flagged = self.true_duplicates + self.false_duplicates
        return self.true_duplicates / flagged if flagged else 1.0

    @property
    def recall(self) -> float:
        """Share of the duplicates that were flagged; 1 where there are none."""
        duplicates = self.true_duplicates + self.missed
        return self.true_duplicates / duplicates if duplicates else 1.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def false_per_million(self) -> float:
        """False duplicates per million documents that are none."""
        return self.false_duplicates / self.non_duplicates * 1e6 if self.non_duplicates else 0.0


def score(
    flagged: npt.NDArray[np.bool_],
    undecidable: npt.NDArray[np.bool_],
    kept: npt.NDArray[np.float64],
    earlier: npt.NDArray[np.float64],
) -> Score:
    """Score a stream: `kept` as of `policy_similarities`, `earlier` the largest similarity with any earlier document.

    Duplicate where kept >= DUPLICATE_MIN; no duplicate where earlier < UNIQUE_BELOW; all else is grey.
    """
    duplicate, different = kept >= DUPLICATE_MIN, earlier < UNIQUE_BELOW
    return Score(
        true_duplicates=int((flagged & duplicate).sum()),
        false_duplicates=int((flagged & different).sum()),
        missed=int((~flagged & duplicate).sum()),
        non_duplicates=int(different.sum()),
        flagged_grey=int((flagged & ~duplicate & ~different).sum()),
        undecidable=int(undecidable.sum()),
    )


def score_labels(flagged: npt.NDArray[np.bool_], labels: Sequence[str], duplicate: Iterable[str], no: str) -> Score:
    """Score pairs against labels: those in `duplicate`, the one that means no duplicate, all others grey."""
    wanted = frozenset(duplicate)
    truth = np.array([1.0 if label in wanted else 0.0 if label == no else 0.6 for label in labels])
    return score(flagged, np.zeros(len(labels), np.bool_), truth, truth)


def same(
    left: Fingerprints,
    right: Fingerprints,
    distance_max: int,
    banding: Banding | None = None,
    look: Look | None = None,
) -> npt.NDArray[np.bool_]:
    """Row by row: would the index call the one a duplicate of the other, were it the only entry?"""
    apart = distances(left.fingerprints, right.fingerprints)
    exact = (left.kinds == Kind.EXACT) & (right.kinds == Kind.EXACT) & (apart == 0)
    near = (left.kinds == Kind.NEAR) & (right.kinds == Kind.NEAR)
    if banding is not None:
        apart = signature_distances(left.fingerprints, right.fingerprints, banding.bin_bits).astype(np.int64)
        shared = band_keys(left.fingerprints, banding) == band_keys(right.fingerprints, banding)
        near &= shared.any(axis=1)
    near &= apart <= distance_max
    if look is not None and left.looks is not None and right.looks is not None:
        near &= look.judge(apart.astype(np.int16), left.looks, right.looks).counts
    return np.asarray(near | exact)


def jaccard(left: str, right: str, size: int) -> float:
    """Jaccard similarity of the sets of runs of `size` tokens; the truth files were made with it.

    Tokens: every Han, kana, Hangul or Thai character, and every other run of letters and digits. 0 for two empty texts.
    """
    one, other = _token_runs(left, size), _token_runs(right, size)
    return len(one & other) / len(one | other) if one or other else 0.0


def _runs(numbers: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """The ranges of equal neighbours."""
    borders = np.flatnonzero(np.diff(numbers, prepend=-1, append=-1)).tolist()
    return pairwise(borders)


def _token_runs(text: str, size: int) -> set[tuple[str, ...]]:
    tokens = _TOKEN.findall(normalise(text))
    return {tuple(tokens[begin : begin + size]) for begin in range(max(1, len(tokens) - size + 1))} if tokens else set()
