"""SimHash: the worked examples, the array road against a plain one, and fingerprints pinned for good."""

import math
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from index.entry import Kind
from index.matching.second_look import CosineLook, MetadataLook, cosine
from streamer.fingerprint import fingerprints
from streamer.fingerprint.fingerprints import Fingerprints, hexadecimal
from streamer.fingerprint.hashing import hash_text
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.fingerprint.simhash.simhash import WEIGHT_UNIT, bit_sums, count_distinct, log_weights, simhash
from streamer.fingerprint.word_shingles import shingle
from streamer.records.reason import Reason
from streamer.settings.settings import Fingerprint
from streamer.text.characters import normalise
from streamer.text.words import words
from tests.support.paths import ROOT
from tests.support.pinned_fingerprints import PINNED, TEXTS

SOME_TEXT = st.text(st.sampled_from("长江大桥是一个好地方ab c dあい,。1é\u0301 \n"), max_size=60)
HASHES = st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=12), max_size=5)


def fingerprint_settings(**changes: object) -> Fingerprint:
    """Every setting said aloud, so that a change of what the product ships changes no expectation here."""
    said: dict[str, object] = {
        "bits": 64,
        "features": "shingles",
        "shingle_words": 2,
        "weight": "tf",
        "segmenter": "compiled",
        "character_shingle_size": 2,
        "features_min": 1,
    }
    return Fingerprint.model_validate(said | changes)


def by_name(name: str) -> Fingerprint:
    features, *weight, bits = name.split("-")
    return fingerprint_settings(features=features, weight="-".join(weight), bits=int(bits))


def column(numbers: Sequence[int]) -> npt.NDArray[np.uint64]:
    return np.array(numbers, np.uint64).reshape(-1, 1)


def bounds_of(lists: Sequence[Sequence[object]]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *map(len, lists)])


def written(sums: npt.NDArray[np.int64], bits: int) -> list[int]:
    """The sums of the low bits as they are written on paper: the highest bit first."""
    return sums[0, :bits][::-1].tolist()


# --- the worked examples ---------------------------------------------------------------------------------------------


def test_two_features_of_six_bits() -> None:
    hashes, weights, bounds = column([0b100101, 0b101011]), np.array([4, 5]), np.array([0, 2])
    assert written(bit_sums(hashes, weights, bounds), 6) == [9, -9, 1, -1, 1, 9]
    assert simhash(hashes, weights, bounds)[0, 0] == 0b101011


def test_five_features_of_three_bits_and_their_hyperplanes() -> None:
    vectors = np.array([(1, -1, 1), (-1, 1, 1), (1, -1, -1), (-1, -1, 1), (1, 1, -1)])
    weights, bounds = np.array([1, 2, 0, 3, 0]), np.array([0, 5])
    hashes = column([int("".join("1" if sign > 0 else "0" for sign in vector), 2) for vector in vectors])
    sums = written(bit_sums(hashes, weights, bounds), 3)
    assert sums == [-4, -2, 6]
    assert simhash(hashes, weights, bounds)[0, 0] == 0b001
    hyperplanes = np.array([(1, -1, 1, -1, 1), (-1, 1, -1, -1, 1), (1, 1, -1, 1, -1)])
    assert (hyperplanes @ weights).tolist() == sums
    assert (hyperplanes == vectors.T).all()


def test_five_features_of_four_bits() -> None:
    hashes, bounds = column([0b1010, 0b1100, 0b1110, 0b1000, 0b0001]), np.array([0, 5])
    weights = np.ones(5, np.int64)
    assert written(bit_sums(hashes, weights, bounds), 4) == [3, -1, -1, -3]
    assert simhash(hashes, weights, bounds)[0, 0] == 0b1000


def test_a_sum_of_nothing_gives_a_zero() -> None:
    hashes, weights, bounds = column([0b1100, 0b1010]), np.array([7, 7]), np.array([0, 2])
    assert written(bit_sums(hashes, weights, bounds), 4) == [14, 0, 0, -14]
    assert simhash(hashes, weights, bounds)[0, 0] == 0b1000


# --- against plain Python --------------------------------------------------------------------------------------------


def plain_sums(hashes: Sequence[int], weights: Sequence[int], bits: int) -> list[int]:
    return [
        sum(weight if value >> bit & 1 else -weight for value, weight in zip(hashes, weights, strict=True))
        for bit in range(bits)
    ]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2**128 - 1), st.integers(0, 2**40)), max_size=8), max_size=5),
    st.sampled_from([1, 2]),
)
def test_bit_sums_are_the_sums_of_the_definition(texts: list[list[tuple[int, int]]], lanes: int) -> None:
    flat = [feature for text in texts for feature in text]
    hashes = np.array(
        [[value >> 64 * lane & (2**64 - 1) for lane in range(lanes)] for value, _ in flat], np.uint64
    ).reshape(-1, lanes)
    sums = bit_sums(hashes, np.array([weight for _, weight in flat], np.int64), bounds_of(texts))
    for row, text in enumerate(texts):
        values = [value & (2 ** (64 * lanes) - 1) for value, _ in text]
        assert sums[row].tolist() == plain_sums(values, [weight for _, weight in text], 64 * lanes)


@pytest.mark.parametrize("count", [1, 255, 40_000])
def test_a_long_text_touches_no_other(count: int) -> None:
    ones, bounds = np.full((count + 2, 1), 2**64 - 1, np.uint64), np.array([0, 1, count + 1, count + 2])
    sums = bit_sums(ones, np.full(count + 2, 3, np.int64), bounds)
    assert sums[:, 0].tolist() == [3, 3 * count, 3]
    assert (sums == sums[:, :1]).all()


@settings(deadline=None)
@given(HASHES, st.randoms(use_true_random=False))
def test_the_order_of_features_changes_no_sum(texts: list[list[int]], random: object) -> None:
    shuffled = [random.sample(text, len(text)) for text in texts]  # type: ignore[attr-defined]
    sums = [
        bit_sums(
            column([value for text in some for value in text]), np.ones(sum(map(len, some)), np.int64), bounds_of(some)
        )
        for some in (texts, shuffled)
    ]
    assert (sums[0] == sums[1]).all()


def mix(number: int) -> int:
    number = (number + 0x9E3779B97F4A7C15) % 2**64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
    return number ^ number >> 31


def chained(values: Sequence[int]) -> int:
    chain = 0
    for value in values:
        chain = mix((chain + value) % 2**64)
    return chain


def test_the_mixer_is_that_of_splitmix64() -> None:
    """The generator's published first outputs for the seed 1234567."""
    seed, outputs = 1234567, []
    for _ in range(3):
        outputs.append(mix(seed))
        seed = (seed + 0x9E3779B97F4A7C15) % 2**64
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@settings(deadline=None)
@given(HASHES, st.integers(2, 4))
def test_shingles_chain_the_words_in_their_order(texts: list[list[int]], size: int) -> None:
    found, bounds = shingle(column([value for text in texts for value in text]), bounds_of(texts), size)
    for row, text in enumerate(texts):
        expected = [chained(text[at : at + size]) for at in range(max(len(text) - size + 1, min(len(text), 1)))]
        assert found[bounds[row] : bounds[row + 1], 0].tolist() == expected


def test_a_shingle_depends_on_the_order_of_its_words() -> None:
    found, _ = shingle(column([5, 9, 9, 5]), np.array([0, 2, 4]), 2)
    assert found[0, 0] != found[1, 0]


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([3, 3 + 2**32, 3 + 2**48, 3 + 2**63, 4, 2**63]), max_size=9), max_size=4))
def test_equal_features_are_counted_even_where_hashes_agree_in_many_bits(texts: list[list[int]]) -> None:
    distinct = count_distinct(column([value for text in texts for value in text]), bounds_of(texts))
    for row, text in enumerate(texts):
        part = slice(distinct.bounds[row], distinct.bounds[row + 1])
        found = dict(zip(distinct.hashes[part, 0].tolist(), distinct.counts[part].tolist(), strict=True))
        assert found == Counter(text)
        assert part.stop - part.start == len(found)
        assert (distinct.texts[part] == row).all()


def test_features_that_all_meet_in_the_table_are_still_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a multiplier of 1 the high bits, which say where a feature lies, are 0 for all of these."""
    monkeypatch.setattr("streamer.fingerprint.simhash.simhash._MULTIPLIER", np.uint64(1))
    texts = [list(range(200)) * 2, [7, 7], list(range(100, 300))]
    distinct = count_distinct(column([value for text in texts for value in text]), bounds_of(texts))
    assert distinct.bounds.tolist() == [0, 200, 201, 401]
    assert distinct.hashes[:, 0].tolist() == [*range(200), 7, *range(100, 300)]
    assert distinct.counts.tolist() == [2] * 201 + [1] * 200


def test_the_table_that_features_lie_in_is_drawn_anew_in_every_process() -> None:
    program = "from streamer.fingerprint.simhash import simhash; print(int(simhash._MULTIPLIER))"
    drawn = {int(subprocess.check_output([sys.executable, "-c", program], cwd=ROOT)) for _ in range(2)}
    assert len(drawn) == 2
    assert all(each % 2 for each in drawn)


def test_distinct_features_of_128_bits_differ_in_either_half() -> None:
    hashes = np.array([[1, 1], [1, 2], [1, 1], [2, 1]], np.uint64)
    distinct = count_distinct(hashes, np.array([0, 4]))
    assert sorted(zip(distinct.hashes.tolist(), distinct.counts.tolist(), strict=True)) == [
        ([1, 1], 2),
        ([1, 2], 1),
        ([2, 1], 1),
    ]


def test_logarithmic_weights_are_rounded_far_from_the_border() -> None:
    """No count up to a million comes so near to a half that another machine's logarithm could round otherwise."""
    counts = np.arange(1, 1_000_001)
    exact = (1.0 + np.log(counts)) * WEIGHT_UNIT
    assert np.abs(exact - np.floor(exact) - 0.5).min() > 1e-8
    weights = log_weights(counts)
    assert weights[[0, 1, 9]].tolist() == [65_536, 110_962, 216_438]
    with localcontext(prec=40):
        for count in (2, 3, 7, 1_000, 999_983):
            assert weights[count - 1] == int(((1 + Decimal(count).ln()) * WEIGHT_UNIT).to_integral_value())


def plain_fingerprint(text: str, chosen: Fingerprint) -> tuple[int, int]:
    """(fingerprint as one number, distinct features) of a text, without arrays."""
    found = words([text], chosen.segmenter, chosen.character_shingle_size)[0]
    lanes = chosen.bits // 64
    hashes = [hash_text(word, lanes) for word in found]
    if chosen.features == "shingles":
        size = chosen.shingle_words
        runs = [hashes[at : at + size] for at in range(max(len(hashes) - size + 1, min(len(hashes), 1)))]
        hashes = [tuple(chained([word[lane] for word in run]) for lane in range(lanes)) for run in runs]
    counts = Counter(hashes)
    values = [sum(part << 64 * lane for lane, part in enumerate(key)) for key in counts]
    weights = [
        count if chosen.weight == "tf" else round((1 + math.log(count)) * WEIGHT_UNIT) for count in counts.values()
    ]
    sums = plain_sums(values, weights, chosen.bits)
    return sum(1 << bit for bit, total in enumerate(sums) if total > 0), len(counts)


def as_number(row: npt.NDArray[np.uint64]) -> int:
    return sum(int(lane) << 64 * position for position, lane in enumerate(row))


@settings(max_examples=60, deadline=None)
@given(st.lists(SOME_TEXT, max_size=4), st.sampled_from(sorted(PINNED)))
def test_a_batch_gets_the_fingerprints_of_the_definition(texts: list[str], name: str) -> None:
    chosen = by_name(name)
    prints = Fingerprinter(chosen).fingerprint(texts)
    for row, text in enumerate(texts):
        assert (as_number(prints.fingerprints[row]), int(prints.feature_counts[row])) == plain_fingerprint(text, chosen)


@pytest.mark.parametrize("name", sorted(PINNED))
def test_fingerprints_are_what_they_were_when_pinned(name: str) -> None:
    """A failure means that every index in use would have to be built anew: raise FORMAT_VERSION, and say so."""
    prints = Fingerprinter(by_name(name)).fingerprint(list(TEXTS.values()))
    assert dict(zip(TEXTS, hexadecimal(prints.kinds, prints.fingerprints), strict=True)) == PINNED[name]


def test_both_segmenters_give_the_same_fingerprints() -> None:
    compiled, by_jieba = (
        Fingerprinter(fingerprint_settings(segmenter=name)).fingerprint(list(TEXTS.values()))
        for name in ("compiled", "jieba")
    )
    assert_equal(compiled, by_jieba)


def test_the_stamp_names_the_dictionary_and_not_which_segmenter_cuts_by_it() -> None:
    stamps = [Fingerprinter(fingerprint_settings(segmenter=name)).stamp() for name in ("compiled", "jieba")]
    assert stamps[0] == stamps[1]
    assert stamps[0]["dictionary"].startswith("jieba 0.42.1 sha256 ")


# --- kinds, slices, stamp --------------------------------------------------------------------------------------------


def assert_equal(left: Fingerprints, right: Fingerprints) -> None:
    for name in Fingerprints.__slots__:
        one, other = getattr(left, name), getattr(right, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            assert (one == other).all(), name


def test_columns_have_the_promised_types_for_any_number_of_texts() -> None:
    for bits in (64, 128):
        for look in (CosineLook(16, 0.8), MetadataLook(16, 0.9, 0.25)):
            hasher = Fingerprinter(fingerprint_settings(bits=bits), look)
            for texts in ([], [""], ["长江", ""]):
                prints = hasher.fingerprint(texts)
                assert len(prints) == len(texts)
                assert prints.fingerprints.shape == (len(texts), bits // 64)
                assert prints.looks is not None
                assert prints.looks.shape == (len(texts), 16)
                assert [getattr(prints, name).dtype for name in Fingerprints.__slots__] == [
                    np.uint8,
                    np.uint8,
                    np.uint64,
                    np.int32,
                    np.uint8,
                ]


@pytest.mark.parametrize(("bits", "hashed"), [(64, xxhash.xxh3_64_intdigest), (128, xxhash.xxh3_128_intdigest)])
def test_short_texts_are_exact_and_texts_without_features_undecidable(bits: int, hashed: object) -> None:
    texts = ["", "！？", "Ａ  b", "a\nB", "a b c d e", "\ud800 x"]
    prints = Fingerprinter(fingerprint_settings(bits=bits, features_min=3)).fingerprint(texts)
    assert prints.feature_counts.tolist() == [0, 0, 1, 1, 4, 1]
    assert prints.kinds.tolist() == [Kind.UNDECIDABLE] * 2 + [Kind.EXACT] * 2 + [Kind.NEAR, Kind.EXACT]
    assert prints.reasons.tolist() == [Reason.NO_FEATURES] * 2 + [Reason.SHORT_TEXT] * 2 + [
        Reason.ORDINARY,
        Reason.SHORT_TEXT,
    ]
    assert (prints.fingerprints[:2] == 0).all()
    assert as_number(prints.fingerprints[2]) == hashed(normalise(texts[2]).encode())  # type: ignore[operator]
    assert (prints.fingerprints[2] == prints.fingerprints[3]).all()
    assert as_number(prints.fingerprints[5]) == hashed(texts[5].encode("utf-8", "surrogatepass"))  # type: ignore[operator]


@settings(deadline=None)
@given(SOME_TEXT, st.integers(2, 10))
def test_no_text_with_words_is_without_features(text: str, size: int) -> None:
    prints = Fingerprinter(fingerprint_settings(shingle_words=size)).fingerprint([text])
    assert (prints.feature_counts[0] > 0) == bool(words([text], "compiled", 2)[0])


def test_the_batch_that_a_text_comes_in_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS.values()] * 3
    whole = Fingerprinter(fingerprint_settings(weight="log-tf")).fingerprint(texts)
    monkeypatch.setattr(fingerprints, "_SLICE_CHARACTERS", 50)
    assert len(list(fingerprints.slices(texts))) > 10
    assert_equal(Fingerprinter(fingerprint_settings(weight="log-tf")).fingerprint(texts), whole)
    monkeypatch.setattr(fingerprints, "_SLICE_TEXTS", 1)
    assert len(list(fingerprints.slices(texts))) == len(texts)
    assert_equal(Fingerprinter(fingerprint_settings(weight="log-tf")).fingerprint(texts), whole)


# --- the second look -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("look", [CosineLook(64, 0.8), MetadataLook(20, 0.9, 0.25)])
@pytest.mark.parametrize(
    "changes", [{}, {"weight": "log-tf"}, {"word_length": True, "title_factor": 3, "features": "words"}]
)
def test_a_second_look_changes_no_fingerprint_and_depends_on_its_own_document_alone(
    look: CosineLook | MetadataLook, changes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*TEXTS.values()]
    titles, metadata = [text[:9] for text in texts], [tuple(text[:12].split()) for text in texts]
    chosen = fingerprint_settings(**changes)
    without = Fingerprinter(chosen).fingerprint(texts, titles, metadata)
    assert without.looks is None
    whole = Fingerprinter(chosen, look).fingerprint(texts, titles, metadata)
    assert_equal(replace(whole, looks=None), without)
    monkeypatch.setattr(fingerprints, "_SLICE_TEXTS", 1)
    assert_equal(Fingerprinter(chosen, look).fingerprint(texts, titles, metadata), whole)


def test_the_cosine_of_looks_is_that_of_the_weighted_features() -> None:
    """By plain counting: with log-tf a word that occurs t times weighs 1 + ln t."""
    generator = np.random.default_rng(8)
    chosen = fingerprint_settings(features="words", weight="log-tf")
    for _ in range(10):
        counts = [Counter(generator.zipf(1.5, 300).clip(max=400).tolist()) for _ in range(2)]
        texts = [" ".join(f"w{word} " * times for word, times in each.items()) for each in counts]
        one, other = ({word: 1 + math.log(times) for word, times in each.items()} for each in counts)
        product = sum(weight * other.get(word, 0) for word, weight in one.items())
        exact = product / math.sqrt(sum(w * w for w in one.values()) * sum(w * w for w in other.values()))
        looks = Fingerprinter(chosen, CosineLook(256, 0.8)).fingerprint(texts).looks
        assert looks is not None
        assert cosine(looks[:1].view(np.int8), looks[1:].view(np.int8))[0] == pytest.approx(exact, abs=0.15)


def test_a_heavier_feature_counts_more_in_the_cosine() -> None:
    chosen = fingerprint_settings(features="words", title_factor=50)
    texts = ["alpha one two three", "alpha four five six"]
    alike = []
    for titles in (["", ""], ["alpha", "alpha"]):
        looks = Fingerprinter(chosen, CosineLook(256, 0.8)).fingerprint(texts, titles).looks
        assert looks is not None
        alike.append(cosine(looks[:1].view(np.int8), looks[1:].view(np.int8))[0])
    assert alike[0] < 0.5
    assert alike[1] > 0.99


def test_metadata_is_a_set_in_normal_form_and_texts_that_are_short_have_no_look() -> None:
    texts = ["a b c d e f"] * 5 + ["a b"]
    metadata = [["Ｋafka", "长江"], ["长江", "kafka", "KAFKA"], ["kafka"], ["", "\u200b", " "], [], ["kafka"]]
    looks = (
        Fingerprinter(fingerprint_settings(features_min=3), MetadataLook(64, 0.9, 0.25))
        .fingerprint(texts, None, metadata)
        .looks
    )
    assert looks is not None
    assert (looks[0] == looks[1]).all()
    assert 10 < (looks[0] == looks[2]).sum() < 54
    assert not looks[3:].any()


def test_the_looks_of_known_documents_are_pinned() -> None:
    texts, metadata = [TEXTS["chinese"], TEXTS["english"]], [["River", "长江"], []]
    pinned = []
    for look in (CosineLook(16, 0.8), MetadataLook(16, 0.9, 0.25)):
        looks = Fingerprinter(fingerprint_settings(), look).fingerprint(texts, None, metadata).looks
        assert looks is not None
        pinned += [row.tobytes().hex() for row in looks]
    assert pinned == [
        "55d62a81d600002a2a00002a2ad600d6",
        "2a00557f002ad60000000000d6810000",
        "1c498237334a5cb8ad79b8e185e24b6c",
        "00000000000000000000000000000000",
    ]


@settings(deadline=None)
@given(st.lists(st.text("ab", max_size=9), max_size=12))
def test_slices_follow_one_another_and_hold_few_characters(texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "_SLICE_CHARACTERS", 10)
        ranges = list(fingerprints.slices(texts))
    assert [row for begin, end in ranges for row in range(begin, end)] == list(range(len(texts)))
    assert all(end - begin <= 1 or sum(map(len, texts[begin:end])) <= 10 for begin, end in ranges)


def test_every_setting_that_changes_a_fingerprint_changes_the_stamp() -> None:
    base = fingerprint_settings()
    others: dict[str, object] = {
        "bits": 128,
        "features": "words",
        "shingle_words": 3,
        "weight": "log-tf",
        "character_shingle_size": 3,
        "features_min": 2,
    }
    # What weighs words or changes the normal form is held to the same in test_word_factors and test_normalisation.
    assert set(others) < set(Fingerprint.model_fields)
    stamp = Fingerprinter(base).stamp()
    assert stamp == Fingerprinter(base).stamp()
    for name, value in others.items():
        changed = Fingerprinter(fingerprint_settings(**{name: value})).stamp()
        assert changed != stamp, name
        assert changed.keys() == stamp.keys()


def test_the_size_of_shingles_is_not_stamped_where_there_are_none() -> None:
    stamps = [Fingerprinter(fingerprint_settings(features="words", shingle_words=size)).stamp() for size in (2, 3)]
    assert stamps[0] == stamps[1]


def test_hexadecimal_is_the_ordinary_number_with_leading_zeros() -> None:
    kinds = np.array([Kind.NEAR, Kind.EXACT, Kind.UNDECIDABLE, Kind.DEAD_LETTER], np.uint8)
    single = np.array([[1], [2**63], [0], [0]], np.uint64)
    assert hexadecimal(kinds, single) == ["0" * 15 + "1", "8" + "0" * 15, None, None]
    double = np.array([[1, 2**63 + 10], [0, 0], [0, 0], [0, 0]], np.uint64)
    assert hexadecimal(kinds, double) == ["800000000000000a0000000000000001", "0" * 32, None, None]
    assert hexadecimal(kinds[:0], single[:0]) == []


def test_near_texts_stand_near_and_others_far() -> None:
    """A guard against a hash or mixer that leaves bits correlated: unrelated texts differ in about half of the bits."""
    chosen = Fingerprinter(fingerprint_settings(bits=128))
    numbers = [zlib.crc32(b"%d" % number) for number in range(40_000)]
    texts = [" ".join(f"w{number % 5_000}" for number in numbers[at : at + 200]) for at in range(0, 40_000, 200)]
    near = [text.replace(" ", " inserted ", 1) for text in texts]
    ours, theirs = chosen.fingerprint(texts).fingerprints, chosen.fingerprint(near).fingerprints
    close = np.bitwise_count(ours ^ theirs).sum(axis=1)
    apart = np.bitwise_count(ours[:, None] ^ ours[None, :]).sum(axis=2, dtype=np.int64)[np.triu_indices(len(ours), 1)]
    assert close.max() < 20
    assert abs(apart.mean() - 64) < 0.5
    assert abs(apart.std() - math.sqrt(32)) < 0.3
