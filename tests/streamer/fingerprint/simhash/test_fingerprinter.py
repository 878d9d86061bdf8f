"""SimHash of whole batches against the plain definition, fingerprints pinned for good, kinds, stamps and looks."""

import math
import zlib
from collections import Counter
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Kind
from index.matching.second_look import CosineLook, MetadataLook, cosine
from streamer.fingerprint import fingerprints
from streamer.fingerprint.fingerprints import Fingerprints, hexadecimal
from streamer.fingerprint.hashing import hash_text
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.fingerprint.simhash.simhash import WEIGHT_UNIT
from streamer.records.reason import Reason
from streamer.settings.settings import Fingerprint
from streamer.text.characters import fold, normalise
from streamer.text.compared import compared
from streamer.text.words import words
from tests.support.examples import examples
from tests.support.pinned_fingerprints import PINNED, TEXTS
from tests.support.plain_simhash import chained, plain_sums

SOME_TEXT = st.text(st.sampled_from("长江大桥是一个好地方ab c dあい,。1é\u0301 \n"), max_size=60)


def fingerprint_settings(**changes: object) -> Fingerprint:
    """All settings set explicitly, so that no expectation depends on the shipped defaults."""
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


# --- against the plain definition ------------------------------------------------------------------------------------


def plain_fingerprint(text: str, chosen: Fingerprint) -> tuple[int, int]:
    """(fingerprint as one number, distinct features) of a text, without arrays."""
    found = words([compared(fold([text])).text(0)], chosen.segmenter, chosen.character_shingle_size)[0]
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


@examples(60)
@given(st.lists(SOME_TEXT, max_size=4), st.sampled_from(sorted(PINNED)))
def test_a_batch_gets_the_fingerprints_of_the_definition(texts: list[str], name: str) -> None:
    chosen = by_name(name)
    prints = Fingerprinter(chosen).fingerprint(texts)
    for row, text in enumerate(texts):
        assert (as_number(prints.fingerprints[row]), int(prints.feature_counts[row])) == plain_fingerprint(text, chosen)


@pytest.mark.parametrize("name", sorted(PINNED))
def test_fingerprints_are_what_they_were_when_pinned(name: str) -> None:
    """A failure means that every index in use must be rebuilt: raise FORMAT_VERSION, and say so."""
    prints = Fingerprinter(by_name(name)).fingerprint(list(TEXTS.values()))
    assert dict(zip(TEXTS, hexadecimal(prints.kinds, prints.fingerprints), strict=True)) == PINNED[name]


def test_both_segmenters_give_the_same_fingerprints() -> None:
    compiled, by_jieba = (
        Fingerprinter(fingerprint_settings(segmenter=name)).fingerprint(list(TEXTS.values()))
        for name in ("compiled", "jieba")
    )
    assert_equal(compiled, by_jieba)


def test_the_stamp_names_the_dictionary_and_not_the_segmenter() -> None:
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
            hasher.sampled_one_in = 1
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
                    np.uint64,
                    np.uint32,
                    np.object_,
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


@given(SOME_TEXT, st.integers(2, 10))
def test_every_text_with_words_has_features(text: str, size: int) -> None:
    prints = Fingerprinter(fingerprint_settings(shingle_words=size)).fingerprint([text])
    assert (prints.feature_counts[0] > 0) == bool(words([text], "compiled", 2)[0])


def test_a_fingerprint_does_not_depend_on_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
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
    """Oracle by counting: with log-tf a word that occurs t times weighs 1 + ln t."""
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


def test_metadata_is_a_set_in_normal_form_and_short_texts_have_no_look() -> None:
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
    # test_word_factors and test_normalisation check the settings of weights and of the normal form likewise.
    assert set(others) < set(Fingerprint.model_fields)
    stamp = Fingerprinter(base).stamp()
    assert stamp == Fingerprinter(base).stamp()
    for name, value in others.items():
        changed = Fingerprinter(fingerprint_settings(**{name: value})).stamp()
        assert changed != stamp, name
        assert changed.keys() == stamp.keys()


def test_the_size_of_shingles_is_not_stamped_without_shingles() -> None:
    stamps = [Fingerprinter(fingerprint_settings(features="words", shingle_words=size)).stamp() for size in (2, 3)]
    assert stamps[0] == stamps[1]


def test_near_texts_stand_near_and_others_far() -> None:
    """Guards against a hash or mixer with correlated bits: unrelated texts differ in about half of the bits."""
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
