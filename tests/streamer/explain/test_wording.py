"""What is said of verdicts, and of which settings."""

import pytest

from index.matching.root import RootRule
from index.matching.second_look import CosineLook, MetadataLook
from index.storage.parameters import Parameters
from streamer.explain.explanation import Likeness
from streamer.explain.wording import (
    LOOKALIKE,
    OLDER_VERSION,
    ORIGINAL,
    deciding,
    measure_of,
    rules_of,
    wording_of,
)
from streamer.fingerprint.scheme import parameters_for
from streamer.records.reason import labels
from streamer.settings.settings import load

STAMP = {"features_min": "9"}
MINHASH = parameters_for(load(overrides=["minhash.similarity_min=0.75", "index.insert=unique"]), STAMP)
MINHASH_ROOT = parameters_for(load(overrides=["minhash.similarity_min=0.75", "index.insert=root"]), STAMP)
COSINE = Parameters(distance_max=7, look=CosineLook(128, 0.85), fingerprint=STAMP)
COSINE_ROOT = Parameters(distance_max=3, insert="root", look=CosineLook(128, 0.85), root=RootRule(6))
METADATA = Parameters(distance_max=5, look=MetadataLook(100, 0.9, 0.25))


@pytest.mark.parametrize(("verdict", "reason"), labels())
def test_every_verdict_and_reason_has_words_of_its_own(verdict: str, reason: str) -> None:
    wording = wording_of(verdict, reason)
    assert wording.sentence != wording_of(verdict, "unheard-of").sentence
    assert wording.sentence.endswith(".")
    for parameters in (MINHASH, MINHASH_ROOT, COSINE, COSINE_ROOT, METADATA):
        for rule in rules_of(wording, load(), parameters):
            assert rule.value not in ("", "None")
            assert rule.meaning.endswith(".")


def test_what_has_no_words_yet_is_told_by_its_names() -> None:
    assert wording_of("unique", "unheard-of").sentence == "Unique: unheard-of."


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (MINHASH, {"minhash.similarity_min": "0.75", "index.insert": "unique"}),
        (
            MINHASH_ROOT,
            {"minhash.similarity_min": "0.75", "index.root_similarity_min": "0.5", "index.insert": "root"},
        ),
        (COSINE, {"index.distance_max": "7", "second_look.cosine_min": "0.85", "index.insert": "unique"}),
        (
            COSINE_ROOT,
            {
                "index.distance_max": "3",
                "second_look.cosine_min": "0.85",
                "index.root_distance_max": "6",
                "index.insert": "root",
            },
        ),
        (
            METADATA,
            {"second_look.similarity_min": "0.25", "second_look.content_weight": "0.9", "index.insert": "unique"},
        ),
    ],
)
def test_thresholds_are_those_of_the_index(parameters: Parameters, expected: dict[str, str]) -> None:
    rules = rules_of(wording_of("duplicate", "similar"), load(overrides=["minhash.similarity_min=0.9"]), parameters)
    assert {rule.setting: rule.value for rule in rules} == expected
    assert all(rule.from_ == "index" for rule in rules)


def test_a_stricter_threshold_of_the_settings_decides_and_a_looser_one_does_not() -> None:
    stricter, looser = (
        load(overrides=[f"minhash.similarity_min={least}", "index.insert=unique"]) for least in (0.9, 0.5)
    )
    first, *others = rules_of(wording_of("duplicate", "similar"), stricter, deciding(MINHASH, stricter), MINHASH)
    assert (first.value, first.from_, [rule.from_ for rule in others]) == ("0.9", "settings", ["index"])
    assert deciding(MINHASH, looser) == MINHASH
    assert measure_of(ORIGINAL, Likeness(0.8), deciding(MINHASH, stricter)) == (
        "It is 0.8 similar to the original, enough at that time; the current settings require at least 0.9."
    )


def test_a_short_text_is_short_by_the_index_and_a_dead_letter_is_one_by_the_settings() -> None:
    (short,) = rules_of(wording_of("duplicate", "short-text-same"), load(), MINHASH)
    assert (short.setting, short.value, short.from_) == ("minhash.features_min", "9", "index")
    (short,) = rules_of(wording_of("unique", "short-text-new"), load(), COSINE)
    assert (short.setting, short.value, short.from_) == ("fingerprint.features_min", "9", "index")
    crawler = load(overrides=["decode.preset=nutch"])
    text, preset = rules_of(wording_of("dead-letter", "no-text"), crawler, MINHASH)
    assert (text.setting, text.value, text.from_) == ("decode.text", "/content", "settings")
    assert (preset.setting, preset.value) == ("decode.preset", "nutch")


@pytest.mark.parametrize(
    ("parameters", "likeness", "expected"),
    [
        (MINHASH, Likeness(0.8), "It is 0.8 similar to the original; the minimum is 0.75."),
        (
            MINHASH_ROOT,
            Likeness(0.6),
            "It is 0.6 similar to the original, at least the 0.5 that an original needs, and at least 0.75 to another "
            "duplicate of it.",
        ),
        (MINHASH, Likeness(1.0), "It equals the original in all that is compared."),
        (
            COSINE,
            Likeness(distance=1, cosine=0.91),
            "It is 1 bit apart from the original; the maximum is 7. The second look agreed: a cosine of 0.91; the minimum "
            "is 0.85.",
        ),
        (
            COSINE_ROOT,
            Likeness(distance=5),
            "It is 5 bits apart from the original, at most the 6 that an original needs, and at most 3 from another "
            "duplicate of it. The second look agreed: a cosine; the minimum is 0.85.",
        ),
        (
            COSINE_ROOT,
            Likeness(distance=7),
            "It is 7 bits apart from the original, enough at that time; the current settings require at most 3.",
        ),
        (
            METADATA,
            Likeness(0.4),
            "It is 0.4 similar to the original by text and metadata; the minimum is 0.25.",
        ),
        (MINHASH, None, "Their likeness is unknown: the decision was restored from the outputs."),
    ],
)
def test_the_measure_stands_beside_its_threshold(
    parameters: Parameters, likeness: Likeness | None, expected: str
) -> None:
    assert measure_of(ORIGINAL, likeness, parameters) == expected


def test_what_resembles_nothing_has_no_measure() -> None:
    assert measure_of(None, None, MINHASH) == ""


def test_what_is_no_original_is_measured_without_a_threshold() -> None:
    assert measure_of(OLDER_VERSION, Likeness(0.9), MINHASH) == "It is 0.9 similar to the version that it replaces."
    assert measure_of(LOOKALIKE, Likeness(distance=1), COSINE) == "It is 1 bit apart from the page that it resembles."
    assert measure_of(OLDER_VERSION, None, MINHASH) == ""
    assert wording_of("update", "recrawled").role == OLDER_VERSION
